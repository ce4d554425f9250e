package robustness

import "time"

// reached reports whether the stream is synced and has received everything up to the revision, or is over.
func (s *stream) reached(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.synced && s.at >= number
}

// released reports whether the revision is reached, and no source is held.
func (s *stream) released(number uint64) bool {
	s.mu.Lock()
	holding := s.holding && !s.over
	s.mu.Unlock()
	return !holding && s.reached(number)
}

// spent reports whether all credit is used up, or the revision is reached.
func (s *stream) spent(number uint64) bool {
	s.mu.Lock()
	idle := s.idle && s.credit == 0
	s.mu.Unlock()
	return idle || s.reached(number)
}

// await waits until done returns true for the revision, and reports whether it did within patience. hurry makes
// the daemon send a heartbeat, which shows that everything was received if there are no more ops.
func (s *stream) await(done func(*stream, uint64) bool, number uint64, hurry func() bool, patience time.Duration) bool {
	const (
		shortly = 500 * time.Microsecond
		longest = 20 * time.Millisecond
	)
	end, pause := time.Now().Add(patience), shortly
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !done(s, number) {
		select {
		case <-s.news:
		case <-timer.C:
			if time.Now().After(end) {
				return false
			}
			hurry()
			pause = min(2*pause, longest)
			timer.Reset(pause)
		}
	}
	return true
}

// holds reports whether a source is held.
func (s *stream) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holding
}
