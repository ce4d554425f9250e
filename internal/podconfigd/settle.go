package podconfigd

import "time"

// settling decides when changed files may be used: a file that is being written in place, or the first of several
// that belong together, may look complete too early, and what a half-written configuration leaves out would be
// removed.
type settling struct {
	// settle is how long the reading must stay the same; after limit of changes a warning is logged.
	settle, limit time.Duration

	// candidate was first read at since; first is when the changes began. All are zero while there are none.
	candidate    digest
	since, first time.Time
}

// verdict is the result of a check of the files.
type verdict int

const (
	// unchanged: the files are as they were last used.
	unchanged verdict = iota
	// unsettled: they have changed, and may still be changing: check them again.
	unsettled
	// settled: they have changed, and were the same at two checks.
	settled
	// restless: they have been changing for longer than a change takes.
	restless
)

// look takes a reading at a time. used is the reading that was used last.
func (s *settling) look(at time.Time, read, used digest) verdict {
	switch {
	case read == used:
		s.reset()
		return unchanged
	case s.first.IsZero():
		s.candidate, s.since, s.first = read, at, at
	case read != s.candidate:
		s.candidate, s.since = read, at
	case at.Sub(s.since) >= s.settle:
		s.reset()
		return settled
	}
	if at.Sub(s.first) > s.limit {
		return restless
	}
	return unsettled
}

func (s *settling) reset() { s.candidate, s.since, s.first = digest{}, time.Time{}, time.Time{} }
