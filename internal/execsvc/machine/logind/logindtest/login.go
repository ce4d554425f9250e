package logindtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	loginPath    = dbus.ObjectPath("/org/freedesktop/login1")
	loginManager = "org.freedesktop.login1.Manager"
)

// Login is a logind and a systemd on a bus, until the test ends.
type Login struct {
	// DropInDir is the directory of its drop-ins.
	DropInDir string

	bus  *Bus
	conn *dbus.Conn

	mu        sync.Mutex
	delay     time.Duration
	preparing bool
	// silent is set while it answers no call; obstinate, while it ignores its drop-ins.
	silent, obstinate bool
	// locks are the locks that aren't closed, by their number. asked are the arguments of each Inhibit.
	locks map[int]bool
	asked []string
	// fewer receives a value when a lock was closed.
	fewer chan struct{}
}

// NewLogin has a logind on the bus, with that longest delay.
func NewLogin(bus *Bus, delay time.Duration) *Login {
	bus.t.Helper()
	l := &Login{DropInDir: bus.t.TempDir(), bus: bus, delay: delay, locks: map[int]bool{}, fewer: make(chan struct{}, 1)}
	l.connect()
	bus.t.Cleanup(func() { _ = l.conn.Close() })
	return l
}

// Restart restarts logind, also on a bus that was restarted. Locks last, and a shutdown is forgotten.
func (l *Login) Restart() {
	l.bus.t.Helper()
	_ = l.conn.Close()
	l.mu.Lock()
	l.preparing = false
	l.mu.Unlock()
	l.connect()
}

func (l *Login) connect() {
	l.bus.t.Helper()
	conn, err := dbus.Connect("unix:path=" + l.bus.Socket)
	if err != nil {
		l.bus.t.Fatal(err)
	}
	for _, name := range []string{"org.freedesktop.login1", "org.freedesktop.systemd1"} {
		if reply, err := conn.RequestName(name, 0); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
			l.bus.t.Fatalf("%s on the bus: %v, %v", name, reply, err)
		}
	}
	calls := make(chan *dbus.Message, 100)
	conn.Eavesdrop(calls)
	l.conn = conn
	go func() {
		for call := range calls {
			if call.Type == dbus.TypeMethodCall {
				l.answer(conn, call)
			}
		}
	}()
}

// answer answers a call. It sends the reply itself, so that the descriptor of a lock can be closed after that.
func (l *Login) answer(conn *dbus.Conn, call *dbus.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return
	}
	reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()), dbus.FieldDestination: call.Headers[dbus.FieldSender],
	}}
	body, closer, failed := l.result(call)
	if failed.Name != "" {
		reply.Type, body = dbus.TypeError, failed.Body
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(failed.Name)
	}
	if reply.Body = body; len(body) > 0 {
		reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	conn.Send(reply, nil)
	if closer != nil {
		_ = closer.Close()
	}
}

// result returns the result of a call, and what to close once it is sent.
func (l *Login) result(call *dbus.Message) (body []any, after io.Closer, failed dbus.Error) {
	member, _ := call.Headers[dbus.FieldMember].Value().(string)
	switch member {
	case "Get":
		switch call.Body[1] {
		case "InhibitDelayMaxUSec":
			return []any{dbus.MakeVariant(uint64(l.delay / time.Microsecond))}, nil, failed //nolint:gosec // It isn't negative.
		case "PreparingForShutdown":
			return []any{dbus.MakeVariant(l.preparing)}, nil, failed
		}
	case "Inhibit":
		if l.preparing {
			return nil, nil, dbus.Error{
				Name: "org.freedesktop.login1.OperationInProgress", Body: []any{"The operation inhibition has been requested for is already running"},
			}
		}
		read, write, err := os.Pipe()
		if err != nil {
			return nil, nil, dbus.Error{Name: "org.freedesktop.DBus.Error.Failed", Body: []any{err.Error()}}
		}
		l.asked = append(l.asked, strings.TrimSpace(fmt.Sprintln(call.Body...)))
		l.hold(len(l.asked), read)
		return []any{dbus.UnixFD(write.Fd())}, write, failed //nolint:gosec // A descriptor is small.
	case "KillUnit":
		if fmt.Sprint(call.Body...) == fmt.Sprint("systemd-logind.service", "all", int32(1)) && !l.obstinate {
			l.reload()
		}
		return nil, nil, failed
	}
	return nil, nil, dbus.Error{Name: "org.freedesktop.DBus.Error.UnknownMethod", Body: []any{member}}
}

// hold holds a lock until its other end is closed. The caller holds mu.
func (l *Login) hold(lock int, end *os.File) {
	l.locks[lock] = true
	go func() {
		_, _ = io.Copy(io.Discard, end)
		_ = end.Close()
		l.mu.Lock()
		delete(l.locks, lock)
		l.mu.Unlock()
		select {
		case l.fewer <- struct{}{}:
		default:
		}
	}()
}

// reload reads the drop-ins. The caller holds mu.
func (l *Login) reload() {
	files, _ := filepath.Glob(filepath.Join(l.DropInDir, "*.conf"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			l.bus.t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "InhibitDelayMaxSec="); ok {
				seconds, err := strconv.Atoi(value)
				if err != nil {
					l.bus.t.Error(err)
				}
				l.delay = time.Duration(seconds) * time.Second
			}
		}
	}
}

// Shutdown begins a shutdown. The channel is closed when logind would go on: all locks are closed, or the longest delay
// has passed.
func (l *Login) Shutdown() (goesOn <-chan struct{}) {
	l.bus.t.Helper()
	l.prepare(true)
	l.mu.Lock()
	late := time.After(l.delay)
	l.mu.Unlock()
	out := make(chan struct{})
	go func() {
		defer close(out)
		for l.Locks() > 0 {
			select {
			case <-l.fewer:
			case <-late:
				return
			}
		}
	}()
	return out
}

// Cancel ends a shutdown, as when systemd refuses it after the delay.
func (l *Login) Cancel() {
	l.bus.t.Helper()
	l.prepare(false)
}

func (l *Login) prepare(is bool) {
	l.bus.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.preparing = is
	if err := l.conn.Emit(loginPath, loginManager+".PrepareForShutdown", is); err != nil && !errors.Is(err, dbus.ErrClosed) {
		l.bus.t.Error(err)
	}
}

// Locks returns the number of locks that aren't closed.
func (l *Login) Locks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.locks)
}

// Asked returns the arguments of each Inhibit.
func (l *Login) Asked() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.asked...)
}

// SetSilent has it answer no call, or answer again.
func (l *Login) SetSilent(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

// SetObstinate has it ignore its drop-ins, as one without a reload does.
func (l *Login) SetObstinate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.obstinate = true
}
