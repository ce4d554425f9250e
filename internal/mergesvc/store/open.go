package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// open opens the file, or makes it.
func (s *Store) open() (*Contents, error) {
	c, err := s.read(os.O_RDWR)
	if err == nil {
		// A transaction without changes: that one can write shows in writing only.
		if err = s.update(func(*bbolt.Tx) error { return nil }); err == nil || !errors.Is(err, ErrDamaged) {
			return c, err
		}
	}
	switch other := (*formatError)(nil); {
	case errors.Is(err, fs.ErrNotExist):
		return s.begin()
	case errors.Is(err, ErrDamaged), errors.As(err, &other):
		err := s.putAside(err, "pods are read from their sources again, under a new instance id, and consumers are caught up "+
			"by the pods that they know")
		if err != nil {
			return nil, err
		}
		return s.begin()
	case unwritable(err):
		_ = s.release()
		c, readErr := s.read(os.O_RDONLY)
		if readErr != nil {
			return nil, fmt.Errorf("%w: %w; nor read: %w", ErrUnwritable, err, readErr)
		}
		return c, fmt.Errorf("%w: %w", ErrUnwritable, err)
	default:
		return nil, err
	}
}

// begin makes a new store.
func (s *Store) begin() (*Contents, error) {
	c := &Contents{Instance: uuid.NewString(), ReadySources: map[string]uint64{}}
	if err := s.create(head{instance: c.Instance}, nil, false); err != nil {
		return nil, err
	}
	s.cfg.Logger.Info("the store is new", "store", s.cfg.Path, "instance_id", c.Instance)
	return c, nil
}

// read opens the file, if it is sound in every respect, and reads all that it holds.
func (s *Store) read(flags int) (c *Contents, err error) {
	if s.file, err = openLocked(s.cfg.Path, flags); err != nil {
		return nil, err
	}
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	err = guard(func() error {
		if err := checkPages(s.file, info.Size()); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := s.openDB(flags == os.O_RDONLY); err != nil {
			return err
		}
		return s.db.View(func(tx *bbolt.Tx) error {
			l, err := openLedger(tx)
			if err == nil {
				c, err = l.contents()
			}
			return err
		})
	})
	if errors.Is(err, ErrDamaged) {
		s.broken = err
	}
	return c, err
}

// openDB has bbolt take over s.file: the one that was locked and checked, whatever the path names by now.
func (s *Store) openDB(readOnly bool) error {
	return guard(func() (err error) {
		s.db, err = bbolt.Open(s.cfg.Path, mode, &bbolt.Options{
			OpenFile: func(string, int, os.FileMode) (*os.File, error) { return s.file, nil },
			ReadOnly: readOnly, NoSync: s.cfg.NoSync, NoGrowSync: s.cfg.NoSync, NoStatistics: true, Timeout: lockTimeout,
		})
		return err
	})
}

// create makes a file that holds the edits and puts it where the store is. Only to replace an open store may there be one.
func (s *Store) create(h head, edits []edit, replace bool) error {
	draft := s.cfg.Path + ".new"
	next := &Store{cfg: s.cfg}
	var err error
	// One process at a time gets beyond this; and it finds what the one before it made.
	if next.file, err = openLocked(draft, os.O_RDWR|os.O_CREATE); err != nil {
		return refused(err)
	}
	if _, err = os.Stat(s.cfg.Path); err == nil && !replace {
		err = fmt.Errorf("%w: it made the store just now", ErrLocked)
	} else if err = next.fill(h, edits); err == nil {
		err = s.putInPlace(draft)
	}
	if err != nil {
		// Before the lock is gone: what has the name then is another process's.
		_ = os.Remove(draft)
		_ = next.release()
		return refused(err)
	}
	_ = s.release()
	s.db, s.file, s.broken = next.db, next.file, nil
	if s.cfg.NoSync {
		return nil
	}
	return refused(syncDir(s.cfg.Path))
}

// fill writes all of a new store.
func (s *Store) fill(h head, edits []edit) error {
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	if err := s.file.Chmod(mode); err != nil {
		return err
	}
	if err := s.openDB(false); err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error {
		l, err := newLedger(tx, h)
		if err != nil {
			return err
		}
		return l.apply(edits, s.cfg.Tombstones)
	})
}

// putInPlace gives the new file the name of the store. The one before is lost with that, unless it tells of damage.
func (s *Store) putInPlace(draft string) error {
	if errors.Is(s.broken, ErrDamaged) {
		err := s.putAside(s.broken, "it gets the pods and the revision that are in memory")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(draft, s.cfg.Path)
}

// putAside sets the file aside, and says so, and what comes of that.
func (s *Store) putAside(reason error, next string) error {
	aside, err := setAside(s.cfg.Path, reason, s.cfg.Now())
	if err != nil {
		return refused(err)
	}
	s.cfg.Logger.Error("the store can't be used and was set aside; a new one takes its place", "next", next, "reason", reason,
		"store", s.cfg.Path, "set_aside", aside)
	if err := pruneAside(s.cfg.Path); err != nil {
		s.cfg.Logger.Warn("stores that were set aside long ago can't be removed", "store", s.cfg.Path, "error", err)
	}
	return nil
}

// release closes what is open. Of a db that is broken only the file: it may hold its own locks, and have lost its mapping.
func (s *Store) release() error {
	db, file := s.db, s.file
	s.db, s.file = nil, nil
	switch {
	case file == nil:
		return nil
	case db != nil && s.broken == nil:
		return db.Close()
	default:
		// A mapping that is left would keep the lock.
		return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
	}
}

// update runs f in a write transaction.
func (s *Store) update(f func(tx *bbolt.Tx) error) error {
	var own error
	err := guard(func() error {
		return s.db.Update(func(tx *bbolt.Tx) error {
			own = f(tx)
			return own
		})
	})
	if err != nil && own == nil && !errors.Is(err, ErrDamaged) {
		// Only some of bbolt's errors wrap what the system said, so all of them count as its refusal.
		err = fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, bolterrors.ErrInvalidMapping) {
		s.broken = err
	}
	return err
}

// guard makes errors of the panics that a damaged file leads bbolt to, and of the faults where the file is shorter than its
// mapping, or can't be read. It works for what f does in this goroutine.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return f()
}

// refused marks an error of the system that says that it can't be written.
func refused(err error) error {
	if unwritable(err) && !errors.Is(err, ErrUnwritable) {
		return fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	return err
}
