package logind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/godbus/dbus/v5"
)

// ErrUnderWay is wrapped by an error of Inhibit if a shutdown is prepared already: it can't be delayed any more.
var ErrUnderWay = errors.New("a shutdown is under way")

// Preparing reports whether a shutdown is prepared.
func (c *Conn) Preparing(ctx context.Context) (bool, error) {
	return property[bool](ctx, c, "PreparingForShutdown")
}

// MaxDelay returns the longest time for which logind delays a shutdown: InhibitDelayMaxSec of logind.conf.
func (c *Conn) MaxDelay(ctx context.Context) (time.Duration, error) {
	micros, err := property[uint64](ctx, c, "InhibitDelayMaxUSec")
	return time.Duration(min(micros, uint64(longestDelay/time.Microsecond))) * time.Microsecond, err //nolint:gosec // It is bounded.
}

// longestDelay bounds MaxDelay: "infinity" is more microseconds than a time.Duration has.
const longestDelay = 24 * 365 * time.Hour

func property[T any](ctx context.Context, c *Conn, name string) (value T, err error) {
	var v dbus.Variant
	call := c.call(ctx, c.bus.Object(login, loginPath), "org.freedesktop.DBus.Properties.Get", loginManager, name)
	if err := call.Store(&v); err != nil {
		return value, fmt.Errorf("read %s of logind: %w", name, err)
	}
	value, ok := v.Value().(T)
	if !ok {
		return value, fmt.Errorf("read %s of logind: it is of type %s", name, v.Signature())
	}
	return value, nil
}

// Inhibit takes a lock that delays the next shutdown until it is closed, or for MaxDelay. It lasts when the connection
// ends, and ends with this process.
func (c *Conn) Inhibit(ctx context.Context) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	conn, err := c.open(ctx, func(options ...dbus.ConnOption) (*dbus.Conn, error) {
		return dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(c.cfg.Socket), append(options, dbus.WithSignalHandler(&hints{restarted: func() {}}))...)
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var fd dbus.UnixFD
	// The words are the kubelet's: they are shown by systemd-inhibit --list.
	err = c.call(ctx, conn.Object(login, loginPath), loginManager+".Inhibit",
		"shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay").Store(&fd)
	if refused, ok := errors.AsType[dbus.Error](err); ok && refused.Name == "org.freedesktop.login1.OperationInProgress" {
		return nil, fmt.Errorf("take logind's lock: %w: %w", ErrUnderWay, err)
	}
	if late := ctx.Err(); err != nil && late != nil {
		// The end of ctx closes the connection too, and the call may fail by that first.
		return nil, fmt.Errorf("take logind's lock: %w: %w", late, err)
	}
	if err != nil {
		return nil, fmt.Errorf("take logind's lock: %w", err)
	}
	return os.NewFile(uintptr(fd), "logind's lock"), nil
}

// Reload has logind read its configuration again: systemd sends it SIGHUP. It has not read it yet when Reload returns.
func (c *Conn) Reload(ctx context.Context) error {
	const hangup = int32(1)
	systemd := c.bus.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	if err := c.call(ctx, systemd, "org.freedesktop.systemd1.Manager.KillUnit", "systemd-logind.service", "all", hangup).Err; err != nil {
		return fmt.Errorf("reload logind's configuration: %w", err)
	}
	return nil
}
