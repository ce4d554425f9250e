package stats

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// shared is a reading that is taken once for all who ask at the time.
type shared[T any] struct {
	stats *Stats
	// name is for the log.
	name string
	take func(context.Context) (T, error)

	mu   sync.Mutex
	last T
	err  error
	// at is when the last one ended, and took is how long that took; zero if there is none.
	at   time.Time
	took time.Duration
	// underway is closed when the reading under way ends; nil if there is none.
	underway chan struct{}
}

// known is the last reading, and whether it is no older than that.
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

// get is the last reading if it is no older than that, else a new one. It fails when ctx ends; the reading goes on for others.
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
		return *new(T), fmt.Errorf("what pods use is still being read: %w", ctx.Err())
	case <-s.stats.ctx.Done():
		return *new(T), errClosed
	}
}

// tell logs that readings begin to fail, and that they don't any more. It holds the lock.
func (s *shared[T]) tell(err error) {
	log := s.stats.cfg.Logger
	switch {
	case err != nil && s.err == nil:
		log.Warn("what pods use can't all be read", "reading", s.name, "error", err)
	case err == nil && s.err != nil:
		log.Info("what pods use can be read again", "reading", s.name)
	}
}

// run takes a reading.
func (s *shared[T]) run(ended chan struct{}) {
	defer s.stats.underway.Done()
	clock := s.stats.cfg.Clock
	began := clock.Now()
	value, err := s.take(s.stats.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats.ctx.Err() == nil {
		s.tell(err)
	}
	s.last, s.err, s.at = value, err, clock.Now()
	s.took, s.underway = s.at.Sub(began), nil
	close(ended)
}
