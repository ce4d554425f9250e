package walltime

import (
	"sync"
	"time"
)

// Reading returns at as a reading of the clock that now was read from. A time in the future, which occurs after the
// clock was set back, counts as now: a wait of d from the reading ends after d at the latest.
func Reading(now, at time.Time) time.Time {
	return now.Add(-max(now.Sub(at), 0))
}

// Readings keeps the Reading of each time, so that later changes of the wall clock don't move it. The zero value is
// ready for use, and safe for concurrent use.
type Readings struct {
	mu sync.Mutex
	by map[string]reading
}

type reading struct {
	// of is the wall time, and at its reading.
	of, at time.Time
}

// Of returns the Reading of the first call with this key and time, and never one in the future.
func (r *Readings) Of(key string, now, at time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.by[key]
	if !ok || !known.of.Equal(at) || known.at.After(now) {
		known = reading{of: at, at: Reading(now, at)}
		if r.by == nil {
			r.by = map[string]reading{}
		}
		r.by[key] = known
	}
	return known.at
}

// Keys returns the keys that have a reading, unordered.
func (r *Readings) Keys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]string, 0, len(r.by))
	for key := range r.by {
		keys = append(keys, key)
	}
	return keys
}

// Drop removes the reading of a key.
func (r *Readings) Drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, key)
}
