package logind_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/machine/logind"
	"github.com/podstream/podstream/internal/execsvc/machine/logind/logindtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the waits for what happens at once.
const patience = 30 * time.Second

func newLogin(t *testing.T) (*logindtest.Bus, *logindtest.Login) {
	t.Helper()
	bus := logindtest.NewBus(t)
	return bus, logindtest.NewLogin(bus, 7*time.Second)
}

func dial(t *testing.T, bus *logindtest.Bus, login *logindtest.Login) *logind.Conn {
	t.Helper()
	c, err := logind.Dial(t.Context(), logind.Config{Socket: bus.Socket, DropInDir: login.DropInDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func await(t *testing.T, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
	}
}

func wantPreparing(t *testing.T, c *logind.Conn, want bool) {
	t.Helper()
	if got, err := c.Preparing(t.Context()); err != nil || got != want {
		t.Errorf("Preparing returns %v, %v; want %v", got, err, want)
	}
}

// A lock delays a shutdown until it is closed. It is no longer granted then.
func TestLock(t *testing.T) {
	bus, login := newLogin(t)
	c := dial(t, bus, login)
	lock, err := c.Inhibit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"shutdown kubelet Kubelet needs time to handle node shutdown delay"}; !slices.Equal(login.Asked(), want) {
		t.Errorf("logind is asked for %q; want %q", login.Asked(), want)
	}
	flags, err := unix.FcntlInt(lock.(*os.File).Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the lock's flags are %x, %v: the programs that podexecd starts would hold it too", flags, err)
	}
	wantPreparing(t, c, false)
	goesOn := login.Shutdown()
	await(t, "the shutdown is announced", c.Changed())
	wantPreparing(t, c, true)
	if _, err := c.Inhibit(t.Context()); !errors.Is(err, logind.ErrUnderWay) {
		t.Errorf("a lock during the shutdown: %v; want ErrUnderWay", err)
	}
	select {
	case <-goesOn:
		t.Error("the shutdown goes on while the lock is held")
	default:
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	await(t, "the shutdown goes on", goesOn)
	login.Cancel()
	await(t, "the cancellation is announced", c.Changed())
	wantPreparing(t, c, false)
}

// A lock outlasts the connection, and logind.
func TestLockLasts(t *testing.T) {
	bus, login := newLogin(t)
	c := dial(t, bus, login)
	lock, err := c.Inhibit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	login.Restart()
	await(t, "logind's restart ends the connection", c.Lost())
	c = dial(t, bus, login)
	bus.Restart()
	await(t, "the end of the bus ends the connection", c.Lost())
	if login.Restart(); login.Locks() != 1 {
		t.Errorf("%d locks are held; want one", login.Locks())
	}
}

// A logind that doesn't answer is an error after the time limit.
func TestSilentLogind(t *testing.T) {
	bus, login := newLogin(t)
	c, err := logind.Dial(t.Context(), logind.Config{Socket: bus.Socket, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	login.SetSilent(true)
	for name, call := range map[string]func() error{
		"Preparing": func() error { _, err := c.Preparing(t.Context()); return err },
		"MaxDelay":  func() error { _, err := c.MaxDelay(t.Context()); return err },
		"Inhibit":   func() error { _, err := c.Inhibit(t.Context()); return err },
		"Reload":    func() error { return c.Reload(t.Context()) },
	} {
		if err := call(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s of a silent logind: %v; want the time limit", name, err)
		}
	}
}

// A bus that accepts connections, and says nothing, is an error after the time limit. So is one that isn't there.
func TestDialFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	silent, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, err = logind.Dial(t.Context(), logind.Config{Socket: path, Timeout: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "connect to the system bus: it doesn't answer") {
		t.Errorf("a silent bus: %v", err)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path+"-gone,guid=1")
	if _, err = logind.Dial(t.Context(), logind.Config{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no bus: %v", err)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "tcp:host=localhost")
	if _, err = logind.Dial(t.Context(), logind.Config{}); err == nil || !strings.Contains(err.Error(), "want unix:path=PATH") {
		t.Errorf("another address: %v", err)
	}
}
