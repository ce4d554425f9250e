package logind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	login        = "org.freedesktop.login1"
	loginPath    = dbus.ObjectPath("/org/freedesktop/login1")
	loginManager = "org.freedesktop.login1.Manager"
	prepare      = "PrepareForShutdown"

	bus              = "org.freedesktop.DBus"
	nameOwnerChanged = "NameOwnerChanged"
)

// defaultSocket is the socket of the system bus.
const defaultSocket = "/run/dbus/system_bus_socket"

// Config configures a Conn. The zero value is for production.
type Config struct {
	// Socket is the path of the bus's socket. Empty: that of DBUS_SYSTEM_BUS_ADDRESS, or the default one.
	Socket string
	// Timeout is the time limit of a call, and of the set-up of a connection. Zero means 5 s.
	Timeout time.Duration
	// DropInDir is the directory of logind's drop-ins. Empty means /etc/systemd/logind.conf.d.
	DropInDir string
}

// Conn is a connection to logind.
type Conn struct {
	cfg   Config
	bus   *dbus.Conn
	hints *hints
}

// Dial connects to logind.
func Dial(ctx context.Context, cfg Config) (_ *Conn, err error) {
	if cfg.Socket == "" {
		if cfg.Socket, err = systemBus(); err != nil {
			return nil, err
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.DropInDir == "" {
		cfg.DropInDir = "/etc/systemd/logind.conf.d"
	}
	c := &Conn{cfg: cfg, hints: &hints{changed: make(chan struct{}, 1)}}
	socket, err := (&net.Dialer{Timeout: cfg.Timeout}).DialContext(ctx, "unix", cfg.Socket)
	if err != nil {
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	// The generic transport of the library accepts no file descriptors.
	c.bus, err = c.open(ctx, func(options ...dbus.ConnOption) (*dbus.Conn, error) {
		return dbus.NewConn(newStream(socket, cfg.Timeout), append(options, dbus.WithSignalHandler(c.hints))...)
	})
	if err != nil {
		return nil, err
	}
	c.hints.restarted = func() { _ = c.bus.Close() }
	if err := c.subscribe(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// systemBus returns the path of the system bus's socket.
func systemBus() (string, error) {
	address := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	if address == "" {
		return defaultSocket, nil
	}
	path, found := strings.CutPrefix(address, "unix:path=")
	path, _, _ = strings.Cut(path, ",")
	if !found || strings.Contains(path, ";") {
		return "", fmt.Errorf("DBUS_SYSTEM_BUS_ADDRESS is %q; want unix:path=PATH", address)
	}
	return path, nil
}

// open sets up a connection within the time limit.
func (c *Conn) open(ctx context.Context, dial func(...dbus.ConnOption) (*dbus.Conn, error)) (*dbus.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	conn, err := dial(dbus.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	late := time.AfterFunc(c.cfg.Timeout, cancel)
	if err = conn.Auth(nil); err == nil {
		err = conn.Hello()
	}
	if !late.Stop() {
		err = errors.New("it doesn't answer")
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	context.AfterFunc(conn.Context(), cancel)
	return conn, nil
}

// subscribe has the bus send logind's signals, and a signal if logind is restarted.
func (c *Conn) subscribe(ctx context.Context) error {
	for _, rule := range []string{
		fmt.Sprintf("type='signal',sender='%s',path='%s',interface='%s',member='%s'", login, loginPath, loginManager, prepare),
		fmt.Sprintf("type='signal',sender='%s',interface='%s',member='%s',arg0='%s'", bus, bus, nameOwnerChanged, login),
	} {
		if err := c.call(ctx, c.bus.BusObject(), bus+".AddMatch", rule).Err; err != nil {
			return fmt.Errorf("subscribe to logind's signals: %w", err)
		}
	}
	return nil
}

// Changed receives a value when a shutdown may be prepared, or may have been cancelled: Preparing returns which.
func (c *Conn) Changed() <-chan struct{} { return c.hints.changed }

// Lost is closed when the connection has ended, or logind was restarted. Locks last.
func (c *Conn) Lost() <-chan struct{} { return c.bus.Context().Done() }

// Close ends the connection. Locks last.
func (c *Conn) Close() { _ = c.bus.Close() }

// call calls a method within the time limit.
func (c *Conn) call(ctx context.Context, object dbus.BusObject, method string, args ...any) *dbus.Call {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	return object.CallWithContext(ctx, method, 0, args...)
}

// hints receives the signals. It stores none of them, however many there are.
type hints struct {
	changed chan struct{}
	// restarted ends the connection. It is set before there is a signal.
	restarted func()
}

// DeliverSignal is part of dbus.SignalHandler.
func (h *hints) DeliverSignal(iface, member string, signal *dbus.Signal) {
	switch {
	case iface == loginManager && member == prepare:
		select {
		case h.changed <- struct{}{}:
		default:
		}
	case iface == bus && member == nameOwnerChanged && signal.Sender == bus: // The bus sets the sender.
		// In its own goroutine: Close waits for the one that delivers.
		go h.restarted()
	}
}
