package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LockRootDir creates the state directory and locks it for this process: two daemons on one directory would conflict
// about the same pods. The lock ends with the process, or with release.
func LockRootDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create --root-dir: %w", err)
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.EROFS) {
		// A broken disk must not prevent the start: the daemon then serves from memory.
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = openPrivate(dir)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock --root-dir: %w", err)
	}
	if f == nil {
		return func() {}, nil
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process uses it")
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock --root-dir %s: %w", dir, err)
	}
	return func() { _ = f.Close() }, nil
}

// openPrivate opens a directory, to lock it. It is nil if other users can open it too: each of them could hold the lock, and
// keep the daemon from starting.
func openPrivate(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o004 == 0 {
		return f, nil
	}
	_ = f.Close()
	return nil, err
}
