package podconfigd

import "time"

// settling decides when files that changed may be used: a file that is being written in place, or the first of several that belong
// together, can look whole before its time, and what a half-written configuration leaves out would be removed.
type settling struct {
	// settle is how long what was read must have stayed the same; after limit of changes somebody is told.
	settle, limit time.Duration

	// candidate was read at since for the first time; first is when the changes began. All are zero while there are none.
	candidate    digest
	since, first time.Time
}

// verdict is what a look at the files found.
type verdict int

const (
	// unchanged: the files are as they were when they were used last.
	unchanged verdict = iota
	// unsettled: they have changed, and may still be changing: they have to be looked at again.
	unsettled
	// settled: they have changed, and were the same at two looks.
	settled
	// restless: they have been changing for longer than anybody writes.
	restless
)

// look takes note of what was read at a time. used is what was used last.
func (s *settling) look(at time.Time, read, used digest) verdict {
	switch {
	case read == used:
		s.forget()
		return unchanged
	case s.first.IsZero():
		s.candidate, s.since, s.first = read, at, at
	case read != s.candidate:
		s.candidate, s.since = read, at
	case at.Sub(s.since) >= s.settle:
		s.forget()
		return settled
	}
	if at.Sub(s.first) > s.limit {
		return restless
	}
	return unsettled
}

func (s *settling) forget() { s.candidate, s.since, s.first = digest{}, time.Time{}, time.Time{} }
