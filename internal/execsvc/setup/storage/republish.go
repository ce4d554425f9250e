package storage

import (
	"math/rand/v2"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// minRenewal is the shortest time between two calls for a publication. The kubelet repeats the call at each sync of the
// pod. A pod is synced every 60 s to 90 s, and at each of its changes too.
const minRenewal = 40 * time.Second

// renewPause returns the time after a call before which it isn't repeated, with jitter.
func renewPause() time.Duration {
	return minRenewal + rand.N(minRenewal/2) //nolint:gosec // It spreads load; it is no secret.
}

// renew has the call of a publication repeated, if its driver wants that and the last call is old enough. It doesn't wait
// for it: the pod runs. It returns the failure of a repeated call once, as an error with which the pod continues.
func (s *Storage) renew(t record.Target) error {
	if s.cfg.Republishes == nil {
		return nil
	}
	s.mu.Lock()
	e := s.targets[t]
	if e == nil {
		s.mu.Unlock()
		return nil
	}
	driver := e.state.Driver
	s.mu.Unlock()
	wanted := s.cfg.Republishes(driver)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.targets[t] != e || !s.isUsable(t) {
		return nil
	}
	switch {
	case !wanted:
		delete(e.state.renew, t)
	case !e.state.renew[t] && !s.cfg.Clock.Now().Before(e.renewAt[t]):
		e.state.renew[t] = true
		s.wake(e)
	}
	op := operation{republish, t}
	f, failed := e.failures[op]
	if !failed || f.told {
		return nil
	}
	f.told = true
	e.failures[op] = f
	return &volume.OutdatedError{Err: f.err}
}
