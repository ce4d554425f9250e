package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/logtest"
)

// listenNotify returns a socket as systemd's, whose address is in the environment.
func listenNotify(t *testing.T, address string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv(notifySocket, address)
	return conn
}

// receive returns the next message. The test fails if none comes.
func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatalf("no message: %v", err)
	}
	return string(b[:n])
}

// run runs the Notifier until the test, or stop, ends it.
func run(t *testing.T, n *Notifier) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func TestNotify(t *testing.T) {
	for name, address := range map[string]string{
		"path": filepath.Join(t.TempDir(), "notify"), "abstract": fmt.Sprintf("@podstream-notify-%d", os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			conn := listenNotify(t, address)
			var alive atomic.Bool
			asked := make(chan struct{}, 1)
			n := New(Config{Alive: func(ctx context.Context) error {
				if alive.Load() {
					return nil
				}
				select {
				case asked <- struct{}{}:
				default:
				}
				<-ctx.Done()
				return errors.New("the loop hangs")
			}})
			if value, set := os.LookupEnv(notifySocket); set {
				t.Errorf("child processes get %s=%s", notifySocket, value)
			}
			n.SetStatus("waiting for source api")
			stop := run(t, n)
			<-asked
			if got, want := receive(t, conn), "STATUS=no progress: the loop hangs"; got != want {
				t.Errorf("before it is alive: %q; want %q", got, want)
			}
			alive.Store(true)
			// The change of the status before the start may come once more.
			want := []string{"STATUS=waiting for source api", "READY=1\nSTATUS=waiting for source api", "STATUS=waiting for source api"}
			for _, w := range want {
				if got := receive(t, conn); got != w {
					t.Errorf("once it is alive: %q; want %q", got, w)
				}
			}
			n.SetStatus("a\nREADY=1\x00\u2028b")
			if got := receive(t, conn); strings.ContainsAny(got, "\n\x00") || !strings.HasPrefix(got, "STATUS=a READY=1 ") {
				t.Errorf("a status with line ends is sent as %q", got)
			}
			n.SetStatus(strings.Repeat("ä", maxStatus))
			if got := receive(t, conn); len(got) > len("STATUS=…")+maxStatus || !strings.HasSuffix(got, "ä…") {
				t.Errorf("a long status is sent with %d bytes, ending in %q", len(got), got[len(got)-8:])
			}
			stop()
			if got, want := receive(t, conn), "STOPPING=1\nSTATUS=stopping"; got != want {
				t.Errorf("at the end: %q; want %q", got, want)
			}
		})
	}
}

// The watchdog is fed while Alive has no error, and only then.
func TestWatchdog(t *testing.T) {
	conn := listenNotify(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", strconv.Itoa(80_000))
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	var hangs atomic.Bool
	failures := make(chan struct{})
	var log logtest.Buffer
	n := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Alive: func(ctx context.Context) error {
		if !hangs.Load() {
			return nil
		}
		select {
		case failures <- struct{}{}:
		case <-ctx.Done():
		}
		return errors.New("the loop hangs")
	}})
	for _, name := range []string{"WATCHDOG_USEC", "WATCHDOG_PID"} {
		if _, set := os.LookupEnv(name); set {
			t.Errorf("child processes get %s", name)
		}
	}
	run(t, n)
	if got := receive(t, conn); got != "READY=1\nSTATUS=" {
		t.Errorf("the first message is %q", got)
	}
	for range 3 {
		if got := receive(t, conn); got != "WATCHDOG=1" {
			t.Errorf("while it is alive: %q; want the watchdog's message", got)
		}
	}
	hangs.Store(true)
	for range 6 {
		<-failures
	}
	// What was sent before it hung, and then nothing but the status.
	got := receive(t, conn)
	for got == "WATCHDOG=1" {
		got = receive(t, conn)
	}
	if got != "STATUS=no progress: the loop hangs" {
		t.Errorf("while it hangs: %q; want a status", got)
	}
	hangs.Store(false)
	if got := receive(t, conn); got != "STATUS=" {
		t.Errorf("after it hung: %q; want the status", got)
	}
	if got := receive(t, conn); got != "WATCHDOG=1" {
		t.Errorf("after it hung: %q; want the watchdog's message", got)
	}
	for _, line := range []string{"no progress", "progress again"} {
		if c := strings.Count(log.String(), line+`"`) + strings.Count(log.String(), line+";"); c != 1 {
			t.Errorf("the log has %q %d times:\n%s", line, c, log.String())
		}
	}
}

func TestNoWatchdog(t *testing.T) {
	for name, set := range map[string]func(t *testing.T){
		"another process": func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", "1000")
			t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()+1))
		},
		"no number": func(t *testing.T) { t.Setenv("WATCHDOG_USEC", "soon") },
		"unset":     func(*testing.T) {},
	} {
		t.Run(name, func(t *testing.T) {
			conn := listenNotify(t, filepath.Join(t.TempDir(), "notify"))
			set(t)
			n := New(Config{Alive: func(context.Context) error { return nil }})
			if n.watchdog != 0 {
				t.Errorf("the watchdog's period is %v; want none", n.watchdog)
			}
			stop := run(t, n)
			if got := receive(t, conn); got != "READY=1\nSTATUS=" {
				t.Errorf("the first message is %q", got)
			}
			stop()
			if got := receive(t, conn); got != "STOPPING=1\nSTATUS=stopping" {
				t.Errorf("the second message is %q; want that of the end", got)
			}
		})
	}
}

func TestWithoutSystemd(t *testing.T) {
	t.Setenv(notifySocket, "")
	n := New(Config{Alive: func(context.Context) error { panic("asked without systemd") }})
	n.SetStatus("x")
	run(t, n)()
}

// An Alive that fails at once is called at intervals until the daemon is ready.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv(notifySocket, "/nowhere")
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int64
		n := New(Config{Alive: func(context.Context) error {
			if calls.Add(1) > 100 {
				cancel()
			}
			return errors.New("a lock is held")
		}})
		go n.Run(ctx)
		time.Sleep(10*readyInterval + readyInterval/2)
		if c := calls.Load(); c != 11 {
			t.Errorf("asked %d times in ten and a half intervals; want 11", c)
		}
		cancel()
		synctest.Wait()
	})
}

// A systemd that can't be reached ends nothing, and is logged once.
func TestUnreachable(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "none"), "vsock:2:3"} {
		t.Setenv(notifySocket, address)
		var log logtest.Buffer
		ready := make(chan struct{}, 1)
		n := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Alive: func(context.Context) error {
			ready <- struct{}{}
			return nil
		}})
		stop := run(t, n)
		<-ready
		stop()
		if c := strings.Count(log.String(), "systemd can't be informed"); c != 1 {
			t.Errorf("%s: logged %d times:\n%s", address, c, log.String())
		}
	}
}
