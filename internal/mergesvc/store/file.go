package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mode keeps the environment variables of pods from others.
	mode = 0o600
	// lockTimeout is how long another process may take to let go of the file.
	lockTimeout = time.Second
	lockRetry   = 20 * time.Millisecond
	// keptAside is how many files that were set aside are kept.
	keptAside = 5
)

// openLocked opens a regular file and locks it for this process, or shares it with other readers if it is only read. The lock
// ends with the descriptor.
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
		// Who had the lock before may have put another file in its place.
		if named, err := os.Stat(path); err == nil && os.SameFile(mine, named) {
			return f, nil
		}
		_ = f.Close()
	}
}

func openRegular(path string, flags int) (*os.File, error) {
	// Opening some of the other things blocks.
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

// unwritable tells whether err is the disk's or the administrator's refusal to be written to.
func unwritable(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EACCES, unix.EPERM, unix.EIO, unix.EFBIG,
	}, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// syncDir makes a rename in the directory of path last.
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync the directory of %s: %w", path, err)
	}
	return nil
}

// asideName matches what setAside appends to the path: why, when, and which one of that second.
var asideName = regexp.MustCompile(`^\.(?:damaged|version-[0-9]+)-([0-9]{8}T[0-9]{6}Z)(?:-([0-9]+))?$`)

// setAside renames what is at path and returns its new name.
func setAside(path string, reason error, now time.Time) (string, error) {
	why := "damaged"
	if other := (*formatError)(nil); errors.As(reason, &other) {
		why = fmt.Sprintf("version-%d", other.found)
	}
	base := fmt.Sprintf("%s.%s-%s", path, why, now.UTC().Format("20060102T150405Z"))
	aside := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	return aside, nil
}

// pruneAside removes the oldest of the files that were set aside, but for the last few. It never removes what is in a directory.
func pruneAside(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	type aside struct{ name, when, which string }
	var found []aside
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(path))
		if m := asideName.FindStringSubmatch(suffix); ok && m != nil {
			found = append(found, aside{name: e.Name(), when: m[1], which: m[2]})
		}
	}
	// A number with more digits is the larger one.
	slices.SortFunc(found, func(a, b aside) int {
		return cmp.Or(strings.Compare(a.when, b.when), cmp.Compare(len(a.which), len(b.which)), strings.Compare(a.which, b.which))
	})
	var errs []error
	for _, a := range found[:max(0, len(found)-keptAside)] {
		errs = append(errs, os.Remove(filepath.Join(filepath.Dir(path), a.name)))
	}
	return errors.Join(errs...)
}
