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

	"github.com/godbus/dbus/v5"
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

// The longest delay is set by a drop-in, and put into use by a reload.
func TestMaxDelay(t *testing.T) {
	bus, login := newLogin(t)
	c := dial(t, bus, login)
	want := func(want time.Duration) {
		t.Helper()
		if got, err := c.MaxDelay(t.Context()); err != nil || got != want {
			t.Errorf("MaxDelay returns %v, %v; want %v", got, err, want)
		}
	}
	want(7 * time.Second)
	if err := c.SetMaxDelay(34*time.Second + time.Millisecond); err != nil {
		t.Fatal(err)
	}
	want(7 * time.Second)
	if err := c.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(35 * time.Second)
	text, err := os.ReadFile(filepath.Join(login.DropInDir, "99-kubelet.conf"))
	if err != nil || !strings.HasSuffix(string(text), "\n[Login]\nInhibitDelayMaxSec=35\n") {
		t.Errorf("the drop-in is %q, %v", text, err)
	}
}

// A signal of another client is no shutdown: only logind's own answer counts. A flood of them is not stored, and file
// descriptors are not accepted.
func TestForgedSignals(t *testing.T) {
	bus, login := newLogin(t)
	c := dial(t, bus, login)
	attacker, err := dbus.Connect("unix:path=" + bus.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer attacker.Close()
	victim := victimOf(t, attacker)
	before := descriptors(t)
	for range 100 {
		forge(t, attacker, victim, "org.freedesktop.login1.Manager", "PrepareForShutdown", true, dbus.UnixFD(0))
		forge(t, attacker, victim, "org.freedesktop.login1.Manager", "PrepareForShutdown", true)
		forge(t, attacker, victim, "org.freedesktop.DBus", "NameOwnerChanged", "org.freedesktop.login1", ":1.1", "")
	}
	await(t, "a forged signal arrives", c.Changed())
	wantPreparing(t, c, false)
	select {
	case <-c.Lost():
		t.Error("a forged signal ends the connection")
	default:
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors are open; want %d", now, before)
	}
}

// victimOf returns the name of the bus's client that is neither logind nor the attacker.
func victimOf(t *testing.T, attacker *dbus.Conn) string {
	t.Helper()
	var names []string
	var login string
	if err := attacker.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names); err != nil {
		t.Fatal(err)
	}
	if err := attacker.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, "org.freedesktop.login1").Store(&login); err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, ":") || name == login || slices.Contains(attacker.Names(), name)
	})
	if len(names) != 1 {
		t.Fatalf("the other clients of the bus are %q; want one", names)
	}
	return names[0]
}

// forge sends a signal to one client of the bus.
func forge(t *testing.T, attacker *dbus.Conn, victim, iface, member string, body ...any) {
	t.Helper()
	msg := &dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(member),
		dbus.FieldPath:        dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/login1")),
		dbus.FieldDestination: dbus.MakeVariant(victim), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
	}}
	if call := attacker.Send(msg, nil); call.Err != nil {
		t.Fatal(call.Err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
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
