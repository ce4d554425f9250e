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
			MaxConnectionsPerPeer: 1, MaxStreamsPerConnection: 1, MaxRequestsPerSecond: 1,
		}
		return f.Open(func(string) access.Role { return access.Operator }, slog.New(slog.DiscardHandler))
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

// TestListenAgain: a socket from systemd whose file was removed would never be reached again, however often the daemon is
// started. It is made again, and the log says so.
func TestListenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f := &Flags{Listen: []string{"unix://" + path}}
	for _, gone := range []bool{false, true} {
		var log logtest.Buffer
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if gone {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		sockets := []systemd.Socket{{Listener: l, Name: "x.socket", Path: path}}
		listeners, err := f.listen(access.Local(), sockets, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || len(listeners) != 1 {
			t.Fatalf("with gone=%t: %d listeners, %v", gone, len(listeners), err)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("with gone=%t, no process listens: %v", gone, err)
		}
		if _, err := listeners[0].Accept(); err != nil {
			t.Errorf("with gone=%t: %v", gone, err)
		}
		_, _ = conn.Close(), listeners[0].Close()
		if strings.Contains(log.String(), "x.socket") != gone {
			t.Errorf("with gone=%t, the log has %q", gone, log.String())
		}
		_ = os.Remove(path)
	}
}
