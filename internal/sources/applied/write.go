package applied

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/write"
)

// Documents returns the stored documents; an error that wraps write.ErrUnready if they aren't known now. The map must not
// be changed.
func (s *Source) Documents() (map[write.Key]*write.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, fmt.Errorf("%w: %w", write.ErrUnready, s.err)
	case s.docs == nil:
		return nil, fmt.Errorf("%w: it hasn't been read yet", write.ErrUnready)
	}
	return s.docs, nil
}

// Write carries out a change: it plans it, has the plan checked, stores what the plan changes, and returns once that is
// published. On an error nothing has changed, except for write.ErrUnpublished and, perhaps, write.ErrUnconfirmed.
func (s *Source) Write(ctx context.Context, r *write.Request) (write.Plan, error) {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return write.Plan{}, ctx.Err()
	}
	present, err := s.Documents()
	if err != nil {
		return write.Plan{}, err
	}
	plan, err := r.Plan(present)
	if err != nil {
		return write.Plan{}, err
	}
	if err := r.Check(plan); err != nil || r.DryRun {
		return plan, err
	}
	if plan.Changes() {
		if err := s.store(r, plan, present); err != nil {
			return plan, err
		}
		failpoint.Reached(failpoint.AfterAppliedStore)
		s.wake()
	}
	if err := s.published(ctx); err != nil {
		return plan, err
	}
	if r.Published != nil {
		r.Published(plan)
	}
	if plan.Changes() && r.Note != nil {
		s.settle()
	}
	return plan, nil
}

// store stores what the plan changes, with the request's note.
func (s *Source) store(r *write.Request, plan write.Plan, present documents) error {
	now := s.cfg.Clock.Now()
	for _, step := range plan.Steps {
		if step.Changes() && step.Next != nil {
			step.Next.Applied = now
		}
	}
	var note []byte
	if r.Note != nil {
		note = r.Note(plan)
	}
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.file == nil {
		return fmt.Errorf("%w: its store isn't open", write.ErrUnready)
	}
	if err := s.commit(plan, note); err != nil {
		// The disk may have taken the change and failed to confirm it: what the file has counts.
		s.release()
		s.open()
		s.wake()
		switch {
		case !errors.Is(err, boltfile.ErrUnwritable):
			return fmt.Errorf("%w: %w", write.ErrUnready, err)
		case s.has(present):
			return fmt.Errorf("%w: %w", write.ErrFull, err)
		}
		return fmt.Errorf("%w: %w", write.ErrUnconfirmed, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.docs = plan.Apply(present)
	s.version++
	return nil
}

// has reports whether the store has these documents, as it is read now.
func (s *Source) has(docs documents) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && maps.EqualFunc(s.docs, docs, func(a, b *write.Document) bool {
		return a.Digest == b.Digest && a.Set == b.Set && a.Caller == b.Caller && a.Applied.Equal(b.Applied)
	})
}

// commit stores the plan's documents in one transaction. The caller holds disk.
func (s *Source) commit(plan write.Plan, note []byte) error {
	if failpoint.Active(failpoint.SkipAppliedStore) {
		return nil
	}
	err := commit(s.file, plan, note)
	if err == nil && s.confirm != nil {
		err = s.confirm()
	}
	return err
}

// published waits until the present version was taken, for the time limit.
func (s *Source) published(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.PublishTime)
	defer cancel()
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	for {
		s.mu.Lock()
		handed, news := s.handed, s.news
		s.mu.Unlock()
		if handed >= version {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return write.ErrUnpublished
		}
	}
}
