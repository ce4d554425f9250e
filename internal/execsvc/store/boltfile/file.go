package boltfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

var (
	// ErrDamaged is wrapped by errors of Open, View and Update if the file isn't what bbolt once wrote. Nothing works on the File
	// after that but Close.
	ErrDamaged = errors.New("the file is damaged")
	// ErrLocked is wrapped by errors of Open if another process has the file open.
	ErrLocked = errors.New("the file is in use by another process")
)

const (
	// mode keeps what pods hold from others.
	mode = 0o600
	// lockTimeout is for bbolt, which locks again what is locked already.
	lockTimeout = time.Second
)

// File is an open file.
type File struct {
	file *os.File
	db   *bbolt.DB
	// broken is set once bbolt stopped in the middle of something.
	broken bool
}

// Open opens the file, if it is sound. One that can't be written may be opened to be read only.
func Open(path string, readOnly bool) (*File, error) {
	// Opening some of the other things blocks.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it isn't a regular file: its mode is %s", ErrDamaged, info.Mode())
	}
	flags, lock := os.O_RDWR, unix.LOCK_EX
	if readOnly {
		flags, lock = os.O_RDONLY, unix.LOCK_SH
	}
	file, err := os.OpenFile(path, flags, mode)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if err := f.open(lock); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open(lock int) error {
	if err := unix.Flock(int(f.file.Fd()), lock|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	} else if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if err := checkPages(f.file, info.Size()); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return f.openDB(lock == unix.LOCK_SH)
}

// openDB has bbolt take over the file that was locked and checked, whatever has its name by now.
func (f *File) openDB(readOnly bool) error {
	return f.guard(func() (err error) {
		f.db, err = bbolt.Open(f.file.Name(), mode, &bbolt.Options{
			OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f.file, nil },
			ReadOnly: readOnly, NoStatistics: true, Timeout: lockTimeout,
		})
		return err
	})
}

// Create makes a file with what fill puts into it, in the place of the one that may have the name: all of it or, on an error,
// nothing. Who has the former one open goes on with that and is to close it.
func Create(path string, fill func(tx *bbolt.Tx) error) (*File, error) {
	draft := path + ".new"
	file, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if err = f.openDB(false); err == nil {
		err = f.Update(fill)
	}
	if err == nil {
		err = os.Rename(draft, path)
	}
	if err == nil {
		err = syncDir(path)
	}
	if err != nil {
		_ = os.Remove(draft)
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// View runs fn in a transaction that changes nothing.
func (f *File) View(fn func(tx *bbolt.Tx) error) error {
	return f.guard(func() error { return f.db.View(fn) })
}

// Update runs fn in a transaction, and returns once that is on disk. On an error the file is as it was, unless the disk took all and
// failed to confirm it.
func (f *File) Update(fn func(tx *bbolt.Tx) error) error {
	return f.guard(func() error { return f.db.Update(fn) })
}

// Close lets go of the file.
func (f *File) Close() error {
	if f.db != nil && !f.broken {
		return f.db.Close()
	}
	// A db that panicked may hold its own locks; and a mapping that is left would keep the one on the file.
	return errors.Join(unix.Flock(int(f.file.Fd()), unix.LOCK_UN), f.file.Close())
}

// guard makes errors of the panics that a damaged file leads bbolt to, and of the faults where the file is shorter than its
// mapping, or can't be read. It works for what fn does in this goroutine.
func (f *File) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			f.broken = true
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		} else if errors.Is(err, bolterrors.ErrInvalidMapping) {
			f.broken = true
		}
	}()
	return fn()
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
