package boltfile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockTimeout is the time limit for another process to release a file.
	lockTimeout = time.Second
	lockRetry   = 20 * time.Millisecond
)

// openLocked opens a regular file and locks it for this process, or shares it with other readers if it is only read.
// The lock ends with the descriptor.
func openLocked(path string, flags int) (*os.File, error) {
	for {
		f, err := openRegular(path, flags)
		if err != nil {
			return nil, err
		}
		how := unix.LOCK_EX
		if flags&os.O_RDWR == 0 {
			how = unix.LOCK_SH
		}
		if err := lock(f, how); err != nil {
			_ = f.Close()
			return nil, err
		}
		mine, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		// The former holder of the lock may have replaced the file.
		if named, err := os.Stat(path); err == nil && os.SameFile(mine, named) {
			return f, nil
		}
		_ = f.Close()
	}
}

func openRegular(path string, flags int) (*os.File, error) {
	// Opening some other kinds of files blocks.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s isn't a regular file: its mode is %s", ErrDamaged, path, info.Mode())
	}
	return os.OpenFile(path, flags, mode)
}

func lock(f *os.File, how int) error {
	for start := time.Now(); ; time.Sleep(lockRetry) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case time.Since(start) >= lockTimeout:
			return fmt.Errorf("%w: %s is still locked after %s", ErrLocked, f.Name(), lockTimeout)
		}
	}
}
