package grpcserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/access"
)

// nameLength is the length of what is added to a socket's path until it takes its place: 50 bits.
const nameLength = 10

// errInUse: another process has the socket.
var errInUse = errors.New("another process listens there already")

// lockedListener holds the lock of its socket until it is closed.
type lockedListener struct {
	net.Listener
	lock *os.File
	// path and file are the socket that the process has made; empty for an inherited one, which stays.
	path string
	file fs.FileInfo
	once sync.Once
	err  error
}

// listen makes the socket.
func (l *lockedListener) listen(a *access.Access, path string) error {
	if err := checkStale(path); err != nil {
		return err
	}
	umask := int(0o777 &^ socketMode(a))
	// The socket must never exist with wider permissions, so the umask sets its mode, not a later chmod. No other
	// goroutine makes files at this point of a daemon's start.
	old := syscall.Umask(umask)
	defer syscall.Umask(old)
	made, err := listenOver(path)
	if err != nil {
		return err
	}
	if l.file, err = os.Lstat(path); err != nil {
		_ = made.Close()
		return err
	}
	l.Listener, l.path = made, path
	return nil
}

// listenOver makes a socket that replaces the dead one at path, in one step: other users may be able to make files in the
// directory, and one of them could otherwise make a file at path between the removal and the bind.
func listenOver(path string) (*net.UnixListener, error) {
	name := path + "." + rand.Text()[:nameLength]
	if len(name) >= len(syscall.RawSockaddrUnix{}.Path) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		name = path
	}
	made, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	made.SetUnlinkOnClose(false)
	if name == path {
		return made, nil
	}
	if err := os.Rename(name, path); err != nil {
		_ = made.Close()
		_ = os.Remove(name)
		return nil, err
	}
	return made, nil
}

// Addr returns the address by which the socket is found, also if it was made with another name.
func (l *lockedListener) Addr() net.Addr {
	if l.path == "" {
		return l.Listener.Addr()
	}
	return &net.UnixAddr{Name: l.path, Net: "unix"}
}

// Close removes the socket, unless another one has taken its path: systemd removes the file of a listening socket, and
// makes its own. A second call does nothing.
func (l *lockedListener) Close() error {
	l.once.Do(func() {
		l.err = l.Listener.Close()
		if now, err := os.Lstat(l.path); err == nil && l.file != nil && os.SameFile(now, l.file) {
			l.err = errors.Join(l.err, os.Remove(l.path))
		}
		_ = l.lock.Close() // Nothing was written, so nothing can fail.
	})
	return l.err
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
	var stat unix.Stat_t
	err = errors.Join(unix.Fstat(int(f.Fd()), &stat), onlyOwners(f, &stat))
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) //nolint:gosec // A file descriptor is an int.
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w, or is about to: it holds %s", errInUse, name)
		if int(stat.Uid) != os.Geteuid() {
			err = fmt.Errorf("%w, which is user %d's; if no daemon of that user runs, remove the file", err, stat.Uid)
		}
	} else if err != nil {
		err = fmt.Errorf("lock %s: %w", name, err)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// onlyOwners takes a lock file that is this process's from other users: one that can open it can hold its lock.
func onlyOwners(f *os.File, stat *unix.Stat_t) error {
	if int(stat.Uid) != os.Geteuid() || stat.Mode&0o7177 == 0 {
		return nil
	}
	return f.Chmod(0o600)
}
