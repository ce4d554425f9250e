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

// mode keeps what pods hold, their environment variables say, from others.
const mode = 0o600

// Options say how a file is used.
type Options struct {
	// ReadOnly is for Open: the file may be one that can't be written.
	ReadOnly bool
	// NoSync leaves out to wait for the disk: what is written survives the end of the process, but not that of the machine.
	NoSync bool
}

// File is an open file.
type File struct {
	opts Options
	// file is db's. To close it is all that can be done once bbolt has stopped in the middle of something.
	file *os.File
	db   *bbolt.DB
	// broken is why bbolt did. Nil: it didn't.
	broken error
}

// Open opens the file, if its pages are sound, and keeps others from it until Close; one that is only read is shared with other readers.
// It waits a second for another process to let go of it.
//
// A file that is damaged may be returned with the error. It is good for nothing but Close, and until then nobody else takes hold of it:
// what is done about the damage is done once.
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
	f := &File{opts: opts, file: file}
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

// openDB has bbolt take over the file that was locked and checked, whatever has its name by now.
func (f *File) openDB() error {
	return f.guard(func() (err error) {
		f.db, err = bbolt.Open(f.file.Name(), mode, &bbolt.Options{
			OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f.file, nil },
			ReadOnly: f.opts.ReadOnly, NoSync: f.opts.NoSync, NoGrowSync: f.opts.NoSync, NoStatistics: true, Timeout: lockTimeout,
		})
		return err
	})
}

// View runs fn in a transaction that changes nothing.
func (f *File) View(fn func(tx *bbolt.Tx) error) error {
	return f.guard(func() error { return f.db.View(fn) })
}

// Update runs fn in a transaction, and returns once that is on disk. On an error the file is as it was, unless the disk took all and
// failed to confirm it.
func (f *File) Update(fn func(tx *bbolt.Tx) error) error {
	var own error
	err := f.guard(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			own = fn(tx)
			return own
		})
	})
	if err != nil && own == nil && !errors.Is(err, ErrDamaged) {
		// Only some of bbolt's errors wrap what the system said, so all of them count as its refusal.
		err = fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	return err
}

// Close lets go of the file.
func (f *File) Close() error {
	if f.db != nil && f.broken == nil {
		return f.db.Close()
	}
	// A db that panicked may hold its own locks; and a mapping that is left would keep the one on the file.
	return errors.Join(unix.Flock(int(f.file.Fd()), unix.LOCK_UN), f.file.Close())
}

// guard makes errors of the panics that a damaged file leads bbolt to, and of the faults where the file is shorter than its
// mapping, or can't be read. It works for what fn does in this goroutine. After such an error there is only that one.
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
