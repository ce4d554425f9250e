package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/failpoint"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Run writes what there is to write until ctx ends, then what is left, and lets go of the file. Its ctx is to end after those who
// change the store have.
func (s *Store) Run(ctx context.Context) {
	s.rouse()
	var retry <-chan time.Time
	pauses := newPauses()
	for {
		select {
		case <-ctx.Done():
			s.close()
			return
		case <-s.wake:
			if retry != nil {
				// Not before its time.
				continue
			}
		case <-retry:
		}
		if err := s.commit(); err != nil {
			retry = s.cfg.Clock.After(pauses.Step())
			continue
		}
		retry, pauses = nil, newPauses()
	}
}

// newPauses are the times from one attempt to the next while writing fails.
func newPauses() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

func (s *Store) close() {
	// What comes of it is logged, and told to those who wait.
	_ = s.commit()
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			s.cfg.Logger.Error("the store didn't close well; the next start checks it", "store", s.cfg.Path, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.end(ErrClosed)
	s.failure = ErrClosed
}

// batch is what one write takes to the disk.
type batch struct {
	waiting *write
	cursor  *podconfigv1.Cursor
	// applied tells that the cursor is to be told of when it is written.
	applied bool
	// whole tells that values are all that there is.
	whole  bool
	values map[place]any
}

// commit writes what isn't on disk, and tells those who wait for it.
func (s *Store) commit() error {
	b := s.take()
	err := s.write(b)
	if err != nil {
		err = fmt.Errorf("write the store %s: %w", s.cfg.Path, err)
	}
	s.mu.Lock()
	before := s.failure
	s.failure = err
	if err != nil {
		// What is on disk isn't kept account of from here on: everything is written next. Nobody waits for that.
		s.whole, s.applied = true, s.applied || b.applied
		clear(s.changed)
		s.next.end(err)
		s.next = newWrite()
	}
	s.mu.Unlock()
	b.waiting.end(err)
	s.tell(before, err)
	if err == nil && b.applied {
		s.cfg.Committed(b.cursor)
	}
	return err
}

// tell logs that writing fails, once as long as it is for the same reason, and that it doesn't any more.
func (s *Store) tell(before, err error) {
	switch {
	case err == nil && before != nil:
		s.cfg.Logger.Info("the store can be written again, and holds all that it should", "store", s.cfg.Path)
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.cfg.Logger.Error("the store can't be written; podexecd goes on from memory, and what changes now is forgotten if it is restarted "+
			"before that is mended; trying again every few seconds", "store", s.cfg.Path, "error", err)
	}
}

func (s *Store) take() batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := batch{waiting: s.next, cursor: s.held.cursor, applied: s.applied, whole: s.whole, values: map[place]any{}}
	if s.whole {
		b.values = s.held.all()
	}
	for at := range s.changed {
		b.values[at] = s.held.at(at)
	}
	s.next, s.whole, s.applied = newWrite(), false, false
	clear(s.changed)
	return b
}

// write puts the batch on disk.
func (s *Store) write(b batch) error {
	if !b.whole && !b.applied && len(b.values) == 0 {
		return nil
	}
	failpoint.Reached(failpoint.BeforeStore)
	defer failpoint.Reached(failpoint.AfterStore)
	cursor, err := encodeCursor(b.cursor)
	if err != nil {
		return err
	}
	edits := make([]edit, 0, len(b.values))
	for at, value := range b.values {
		e := edit{place: at}
		if value != nil {
			if e.record, err = encode(at.uid, value); err != nil {
				return err
			}
		}
		edits = append(edits, e)
	}
	if b.whole {
		return s.replace(cursor, edits)
	}
	err = s.file.Update(func(tx *bbolt.Tx) error {
		l, err := openLedger(tx)
		if err != nil {
			return err
		}
		return l.apply(cursor, edits)
	})
	if errors.Is(err, boltfile.ErrDamaged) {
		s.damaged = err
	}
	return err
}

// replace makes a new file that holds the edits and nothing else.
func (s *Store) replace(cursor []byte, edits []edit) error {
	file, err := boltfile.Create(s.cfg.Path, boltfile.Options{}, func(tx *bbolt.Tx) error {
		l, err := newLedger(tx)
		if err != nil {
			return err
		}
		return l.apply(cursor, edits)
	}, s.makeRoom)
	if file == nil {
		return err
	}
	if s.file != nil {
		// It has no name any more, or another one.
		_ = s.file.Close()
	}
	s.file, s.damaged = file, nil
	return err
}

// makeRoom sets a damaged file aside before a new one takes its place.
func (s *Store) makeRoom() error {
	if s.damaged == nil {
		return nil
	}
	aside, err := boltfile.SetAside(s.cfg.Path, s.damaged, s.cfg.Clock.Now())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.cfg.Logger.Error("the store can't be used and was set aside; a new one takes its place, with what podexecd knows now",
		"store", s.cfg.Path, "set_aside", aside, "reason", s.damaged)
	if err := boltfile.PruneAside(s.cfg.Path); err != nil {
		s.cfg.Logger.Warn("stores that were set aside long ago can't be removed", "store", s.cfg.Path, "error", err)
	}
	return nil
}
