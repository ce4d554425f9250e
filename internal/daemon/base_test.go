package daemon

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon/systemd"
	"github.com/podstream/podstream/internal/logtest"
)

// TestOpen: Open takes the lock on --root-dir and listens; a second one fails until the first is closed.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	open := func(socket, metrics string) (*Base, error) {
		f := &Flags{
			RootDir: dir, Listen: []string{"unix://" + filepath.Join(dir, socket)}, MetricsAddress: metrics, LogFormat: "text",
			Limits: allLimits(1, 1, 1),
		}
		return f.Open(Rights{MinimumRole: func(string) access.Role { return access.Operator }}, slog.New(slog.DiscardHandler))
	}
	first, err := open("a", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Listeners[0].Close() }()
	taken := first.metrics.Addr().String()
	if b, err := open("b", ""); err == nil {
		b.Close()
		t.Error("two daemons open one --root-dir; want an error")
	}
	first.Close()
	if conn, err := net.Dial("tcp", taken); err == nil {
		_ = conn.Close()
		t.Error("--metrics-address still answers after Close")
	}
	if b, err := open("c", "no port"); err == nil {
		b.Close()
		t.Error("Open with a wrong --metrics-address succeeds; want an error")
	}
	last, err := open("d", "")
	if err != nil {
		t.Fatalf("Open after Close and after a failure: %v; want the lock to be free", err)
	}
	_ = last.Listeners[0].Close()
	last.Close()
}

// TestListenAgain: a socket from systemd whose file was removed, or replaced by a daemon that was killed, would never be
// reached again, however often the daemon is started. It is made again, and the log says so.
func TestListenAgain(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"as it is": nil,
		"removed":  os.Remove,
		"replaced": func(path string) error {
			l, err := bindSocket(path)
			if err == nil {
				err = l.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := bindSocket(path)
			if err != nil {
				t.Fatal(err)
			}
			if lose != nil {
				if err := lose(path); err != nil {
					t.Fatal(err)
				}
			}
			var log logtest.Buffer
			f := &Flags{Listen: []string{"unix://" + path}}
			sockets := []systemd.Socket{{Listener: l, Name: "x.socket", Path: path}}
			listeners, err := f.listen(access.Local(), sockets, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil || len(listeners) != 1 {
				t.Fatalf("%d listeners, %v; want one", len(listeners), err)
			}
			defer func() { _ = listeners[0].Close() }()
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatalf("no process listens: %v", err)
			}
			_ = conn.Close()
			if _, err := listeners[0].Accept(); err != nil {
				t.Error(err)
			}
			if strings.Contains(log.String(), "x.socket") != (lose != nil) {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}

// bindSocket makes a listening socket at the path, in the place of another. Its file stays when it is closed.
func bindSocket(path string) (net.Listener, error) {
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}
