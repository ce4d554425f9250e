package storage

import "github.com/podstream/podstream/internal/execsvc/setup/storage/record"

// miss records that a pod's worker goes on without the target, for the reason err, while the operations continue. It returns nil if the target
// is as done wants it by now.
func (s *Storage) miss(e *entry, t record.Target, done func(*state) bool, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done(&e.state) {
		return nil
	}
	if s.targets[t] == e {
		s.missed[t] = true
	}
	return err
}

// tookMissed reports whether the operation, which has succeeded, is what a pod's worker goes on without, and forgets that. mu
// is held since the operation has ended for the workers: one that gives up before that is woken, and one that comes later finds it done.
func (s *Storage) tookMissed(op operation) bool {
	if op.kind != publish && op.kind != unpublish {
		return false
	}
	missed := s.missed[op.target]
	delete(s.missed, op.target)
	return missed
}
