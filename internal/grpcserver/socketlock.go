package grpcserver

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// errInUse: another process has the socket.
var errInUse = errors.New("another process listens there already")

// lockedListener holds the lock of its socket until it is closed.
type lockedListener struct {
	net.Listener
	lock *os.File
}

func (l lockedListener) Close() error {
	err := l.Listener.Close()
	// Nothing was written, so nothing can fail; a second call does nothing.
	_ = l.lock.Close()
	return err
}

// lockSocket locks the path for this process. Without the lock, another daemon could make a socket between the check
// that the old one is dead and its replacement, and would lose that socket unnoticed. The file is never removed:
// otherwise two processes could each hold a lock, one of them on a removed file. The kernel releases the lock when
// the process ends.
func lockSocket(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the socket's path, whose directory must be writable: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) //nolint:gosec // A file descriptor is an int.
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w, or is about to: it holds %s", errInUse, name)
	} else if err != nil {
		err = fmt.Errorf("lock %s: %w", name, err)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
