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

// Run writes changes until ctx ends, then the rest, and closes the file. ctx must end after the last change.
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
				// After a failure only the retry writes.
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

// newPauses returns the pauses between attempts while writing fails.
func newPauses() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

func (s *Store) close() {
	// The error is logged, and returned to waiting callers.
	_ = s.commit()
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			s.cfg.Logger.Error("closing the store failed; the next start checks it", "store", s.cfg.Path, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.end(ErrClosed)
	s.failure = ErrClosed
}

// batch is the content of one write.
type batch struct {
	waiting *write
	cursor  *podconfigv1.Cursor
	// removals are the times of the last removals.
	removals []time.Time
	// applied is set if Config.Committed must be called with the cursor after the write.
	applied bool
	// whole is set if values is the whole state.
	whole  bool
	values map[place]any
}

// commit writes the changes, and wakes the callers that wait for it.
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
		// The content of the file is unknown now: the next write has the whole state. No caller waits for it.
		s.whole, s.applied = true, s.applied || b.applied
		clear(s.changed)
		s.next.end(err)
		s.next = newWrite()
	}
	s.mu.Unlock()
	b.waiting.end(err)
	s.logChange(before, err)
	if err == nil && b.applied {
		s.cfg.Committed(b.cursor)
	}
	return err
}

// logChange logs that writing fails, once for each reason, and that it succeeds again.
func (s *Store) logChange(before, err error) {
	switch {
	case err == nil && before != nil:
		s.cfg.Logger.Info("the store can be written again, and has the whole state", "store", s.cfg.Path)
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.cfg.Logger.Error("the store can't be written; podexecd goes on from memory, and loses the changes if it is restarted "+
			"before that is repaired; retrying every few seconds", "store", s.cfg.Path, "error", err)
	}
}

func (s *Store) take() batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := batch{waiting: s.next, cursor: s.held.cursor, removals: s.held.removals, applied: s.applied, whole: s.whole, values: map[place]any{}}
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

// write writes the batch to disk.
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
		return s.replace(cursor, b.removals, edits)
	}
	err = s.file.Update(func(tx *bbolt.Tx) error {
		l, err := openLedger(tx)
		if err != nil {
			return err
		}
		return l.apply(cursor, b.removals, edits)
	})
	if errors.Is(err, boltfile.ErrDamaged) {
		s.damaged = err
	}
	return err
}

// replace creates a new file with these edits only.
func (s *Store) replace(cursor []byte, removals []time.Time, edits []edit) error {
	file, err := boltfile.Create(s.cfg.Path, boltfile.Options{}, func(tx *bbolt.Tx) error {
		l, err := newLedger(tx)
		if err != nil {
			return err
		}
		return l.apply(cursor, removals, edits)
	}, s.setAside)
	if file == nil {
		return err
	}
	if s.file != nil {
		// The old file was replaced or renamed.
		_ = s.file.Close()
	}
	s.file, s.damaged = file, nil
	return err
}

// setAside renames a damaged file before a new one replaces it.
func (s *Store) setAside() error {
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
	s.cfg.Logger.Error("the store can't be used and was set aside; a new one replaces it, with the state in memory",
		"store", s.cfg.Path, "set_aside", aside, "reason", s.damaged)
	if err := boltfile.PruneAside(s.cfg.Path); err != nil {
		s.cfg.Logger.Warn("old stores that were set aside can't be removed", "store", s.cfg.Path, "error", err)
	}
	return nil
}
