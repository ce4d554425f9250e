package diskusage

import (
	"errors"
	"time"
)

const (
	// movesEnough is how many counts in a row must have found moved directories, for at least Config.MaxTime, for the
	// pod to be the cause.
	movesEnough = 5
	// mostLate bounds how often in a row the time of a count is doubled.
	mostLate = 3
)

// trouble records failed counts of a pod. A single one means nothing: a pod may rename directories, and a disk may be
// slow. The lock of the Meter protects it.
type trouble struct {
	// moves is the number of successive counts that found moved directories; since is when the first of them ended.
	moves int
	since time.Time
	// late is the number of successive counts that ran out of time after few files.
	late int
}

// maxTime is how long the next count may take.
func (t *trouble) maxTime(most time.Duration) time.Duration { return most << t.late }

// judge decides whether a count makes the pod uncountable. Until then the pod keeps the previous figures, unless
// those are smaller.
func (t *trouble) judge(u, before *Usage, most time.Duration) {
	moved, late := errors.Is(u.Err, errMoved), errors.Is(u.Err, errSlowDisk)
	if !moved {
		t.moves = 0
	}
	if !late {
		t.late = 0
	}
	switch {
	case moved:
		if t.moves == 0 || u.At.Before(t.since) {
			t.since = u.At
		}
		t.moves++
		u.Uncountable = u.Uncountable || t.moves >= movesEnough && u.At.Sub(t.since) >= most
	case late:
		// The disk may be slow because of other pods: this makes no pod uncountable.
		t.late = min(t.late+1, mostLate)
	}
	if (moved || late) && before != nil && before.Total().Bytes >= u.Total().Bytes {
		u.EmptyDirs, u.Others, u.Logs, u.Messages, u.Hosts = before.EmptyDirs, before.Others, before.Logs, before.Messages, before.Hosts
	}
}
