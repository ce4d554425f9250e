package grpcserver

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// errInUse: the socket is somebody else's.
var errInUse = errors.New("another process listens there already")

// lockedListener holds the lock of its socket until it is closed.
type lockedListener struct {
	net.Listener
	lock *os.File
}

func (l lockedListener) Close() error {
	err := l.Listener.Close()
	// Nothing was written, so nothing can fail; a second time does nothing.
	_ = l.lock.Close()
	return err
}

// lockSocket locks the path for this process. Between finding a socket dead and making a new one in its place another daemon may
// have made one: without the lock it would lose that, and not notice. The file is never removed, for then two could hold a lock
// each, one of a file that is gone. The lock ends with the process, however that ends.
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
