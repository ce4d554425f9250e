package boltfile

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// mode keeps other users from reading the pods' content, for instance their environment variables.
const mode = 0o600

// Options configure a file. The zero value is for reading and writing, with fsync.
type Options struct {
	// ReadOnly is for Open: the file may be read-only.
	ReadOnly bool
	// NoSync doesn't wait for the disk: written data survives the end of the process, but not that of the machine.
	NoSync bool
}

// File is an open file.
type File struct {
	opts Options
	// path is the file's name. Empty: it has none yet.
	path string
	// file is db's. After bbolt has panicked, it can only be closed.
	file *os.File
	db   *bbolt.DB
	// broken is the error of a panic in bbolt. Nil means none.
	broken error
}

// Open opens the file, if its pages are sound, and locks it until Close; readers with ReadOnly share the lock. It
// waits a second for another process to release it.
//
// A damaged file may be returned with the error. It can only be closed. Until then no other process gets the lock, so
// that the damage is handled once.
func Open(path string, opts Options) (*File, error) {
	flags := os.O_RDWR
	if opts.ReadOnly {
		flags = os.O_RDONLY
	}
	file, err := openLocked(path, flags)
	if err != nil && !opts.ReadOnly {
		err = refused(err)
	}
	if err != nil {
		return nil, err
	}
	f := &File{opts: opts, path: path, file: file}
	err = f.check()
	if err == nil {
		err = f.openDB()
	}
	if err == nil || errors.Is(err, ErrDamaged) {
		return f, err
	}
	_ = f.Close()
	return nil, err
}

func (f *File) check() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if err := checkPages(f.file, info.Size()); err != nil {
		f.broken = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return f.broken
}

// openDB has bbolt open the file that was locked and checked, whatever file has its name by now.
func (f *File) openDB() error {
	return f.guard(func() (err error) {
		f.db, err = bbolt.Open(f.file.Name(), mode, &bbolt.Options{
			OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f.file, nil },
			ReadOnly: f.opts.ReadOnly, NoSync: f.opts.NoSync, NoGrowSync: f.opts.NoSync, NoStatistics: true, Timeout: lockTimeout,
		})
		return err
	})
}

// View runs fn in a read-only transaction.
func (f *File) View(fn func(tx *bbolt.Tx) error) error {
	return f.guard(func() error { return f.db.View(fn) })
}

// Named returns an error that wraps ErrGone unless the file still has the name that it was opened or created with.
func (f *File) Named() error {
	mine, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	named, err := os.Stat(f.path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrGone, err)
	case !os.SameFile(mine, named):
		return fmt.Errorf("%w: %s is another file now", ErrGone, f.path)
	}
	return nil
}

// Update runs fn in a transaction, and returns once that is on disk under the file's name. On an error the file is
// unchanged, unless the disk took all and failed to confirm it, or the file has lost its name.
func (f *File) Update(fn func(tx *bbolt.Tx) error) error {
	var own error
	err := f.guard(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			own = fn(tx)
			return own
		})
	})
	if err != nil && own == nil && !errors.Is(err, ErrDamaged) {
		// Only some of bbolt's errors wrap the system's error, so all of them count as a failed write.
		err = fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	if err == nil && f.path != "" {
		err = f.Named()
	}
	return err
}

// Close closes the file and releases the lock.
func (f *File) Close() error {
	if f.db != nil && f.broken == nil {
		return f.db.Close()
	}
	// A db that panicked may hold its own locks; and a remaining mapping would keep the lock on the file.
	return errors.Join(unix.Flock(int(f.file.Fd()), unix.LOCK_UN), f.file.Close())
}

// guard turns into errors the panics of bbolt on a damaged file, and the faults where the file is shorter than its
// mapping, or can't be read. It works only for code in this goroutine. After such an error, every call returns it.
func (f *File) guard(fn func() error) (err error) {
	if f.broken != nil {
		return f.broken
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
			f.broken = err
		} else if errors.Is(err, bolterrors.ErrInvalidMapping) {
			f.broken = err
		}
	}()
	return fn()
}
