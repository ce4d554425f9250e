package daemon

import (
	"errors"
	"fmt"
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
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, unix.EROFS) {
		// A broken disk must not prevent the start: the daemon then serves from memory. The directory itself can be
		// locked.
		f, err = os.Open(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock --root-dir: %w", err)
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
