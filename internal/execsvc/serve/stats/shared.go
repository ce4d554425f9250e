package stats

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// shared is a reading that concurrent requests share.
type shared[T any] struct {
	stats *Stats
	// name is the name in the log.
	name string
	take func(context.Context) (T, error)

	mu   sync.Mutex
	last T
	err  error
	// at is the end of the last one; zero if there is none.
	at time.Time
	// underway is closed when the reading under way ends; nil if there is none.
	underway chan struct{}
}

// known returns the last reading, and whether it is at most that old.
func (s *shared[T]) known(age time.Duration) (last T, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.fresh(age), s.err
}

func (s *shared[T]) fresh(age time.Duration) bool {
	since := s.stats.cfg.Clock.Since(s.at)
	// The clock may have been set back.
	return !s.at.IsZero() && since >= 0 && since <= age
}

// get returns the last reading if it is at most that old, else a new one. It fails when ctx ends; the reading
// continues for other requests.
func (s *shared[T]) get(ctx context.Context, age time.Duration) (T, error) {
	s.mu.Lock()
	if s.fresh(age) {
		defer s.mu.Unlock()
		return s.last, s.err
	}
	if s.underway == nil {
		if s.stats.ctx.Err() != nil {
			defer s.mu.Unlock()
			return *new(T), errClosed
		}
		s.underway = make(chan struct{})
		s.stats.underway.Add(1)
		go s.run(s.underway)
	}
	ended := s.underway
	s.mu.Unlock()
	select {
	case <-ended:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last, s.err
	case <-ctx.Done():
		return *new(T), fmt.Errorf("the usage of pods is still being read: %w", ctx.Err())
	case <-s.stats.ctx.Done():
		return *new(T), errClosed
	}
}

// report logs when readings begin to fail, and when they succeed again. The caller holds the lock.
func (s *shared[T]) report(err error) {
	log := s.stats.cfg.Logger
	switch {
	case err != nil && s.err == nil:
		log.Warn("the usage of pods can't all be read", "reading", s.name, "error", err)
	case err == nil && s.err != nil:
		log.Info("the usage of pods can be read again", "reading", s.name)
	}
}

// run takes a reading.
func (s *shared[T]) run(ended chan struct{}) {
	defer s.stats.underway.Done()
	value, err := s.take(s.stats.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats.ctx.Err() == nil {
		s.report(err)
	}
	s.last, s.err, s.at, s.underway = value, err, s.stats.cfg.Clock.Now(), nil
	close(ended)
}
