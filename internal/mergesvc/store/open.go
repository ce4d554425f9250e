package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/podstream/podstream/internal/boltfile"
)

// open opens the file, or makes it.
func (s *Store) open() (*Contents, error) {
	c, err := s.read(boltfile.Options{NoSync: s.cfg.NoSync})
	if err == nil {
		// A transaction without changes: whether the file can be written shows only in a write.
		if err = s.update(func(*bbolt.Tx) error { return nil }); err == nil || !errors.Is(err, ErrDamaged) {
			return c, err
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.begin()
	case boltfile.Unusable(err):
		err := s.putAside(err, "pods are read from their sources again, under a new instance id, and consumers are caught up "+
			"by the pods that they know")
		if err != nil {
			return nil, err
		}
		return s.begin()
	case errors.Is(err, ErrUnwritable):
		c, readErr := s.read(boltfile.Options{ReadOnly: true})
		if readErr != nil {
			return nil, fmt.Errorf("%w; nor read: %w", err, readErr)
		}
		return c, err
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

// read opens the file, if it is sound, and reads its contents.
func (s *Store) read(opts boltfile.Options) (c *Contents, err error) {
	if s.file, err = boltfile.Open(s.cfg.Path, opts); err == nil {
		err = s.file.View(func(tx *bbolt.Tx) error {
			l, err := openLedger(tx)
			if err == nil {
				c, err = l.contents()
			}
			return err
		})
	}
	if errors.Is(err, ErrDamaged) {
		s.broken = err
	}
	return c, err
}

// create makes a file with the edits and moves it to the store's path. A store may be at the path only if replace is
// set.
func (s *Store) create(h head, edits []edit, replace bool) error {
	next, err := boltfile.Create(s.cfg.Path, boltfile.Options{NoSync: s.cfg.NoSync}, func(tx *bbolt.Tx) error {
		// One process at a time gets here, and finds the store that a previous one made.
		if _, err := os.Stat(s.cfg.Path); err == nil && !replace {
			return fmt.Errorf("%w: it made the store just now", ErrLocked)
		}
		l, err := newLedger(tx, h)
		if err != nil {
			return err
		}
		return l.apply(edits, s.cfg.Tombstones)
	}, s.makeRoom)
	if next != nil {
		_ = s.release()
		s.file, s.broken = next, nil
	}
	return err
}

// makeRoom is called before a new file replaces the store. The old file is lost, unless it is damaged: then it is set
// aside.
func (s *Store) makeRoom() error {
	if !errors.Is(s.broken, ErrDamaged) {
		return nil
	}
	err := s.putAside(s.broken, "it gets the pods and the revision that are in memory")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// putAside sets the file aside and logs it.
func (s *Store) putAside(reason error, next string) error {
	aside, err := boltfile.SetAside(s.cfg.Path, reason, s.cfg.Now())
	if err != nil {
		return err
	}
	s.cfg.Logger.Error("the store can't be used and was set aside; a new one takes its place", "next", next, "reason", reason,
		"store", s.cfg.Path, "set_aside", aside)
	if err := boltfile.PruneAside(s.cfg.Path); err != nil {
		s.cfg.Logger.Warn("stores that were set aside long ago can't be removed", "store", s.cfg.Path, "error", err)
	}
	return nil
}

// release closes the file, if one is open.
func (s *Store) release() error {
	file := s.file
	if s.file = nil; file == nil {
		return nil
	}
	return file.Close()
}

// update runs f in a write transaction.
func (s *Store) update(f func(tx *bbolt.Tx) error) error {
	err := s.file.Update(f)
	if errors.Is(err, ErrDamaged) {
		s.broken = err
	}
	return err
}
