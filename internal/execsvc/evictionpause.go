package execsvc

import (
	"time"
)

// pastEviction is the last eviction or preemption of a static pod.
type pastEviction struct {
	at time.Time
	// pause is the time from then until the pod starts again.
	pause time.Duration
}

// The pause doubles with each eviction up to longestEvictionPause. It is reset once the pod has run for evictionReset.
const (
	firstEvictionPause   = 10 * time.Second
	longestEvictionPause = 5 * time.Minute
	evictionReset        = 10 * time.Minute
)

// then returns the eviction at that time, which may be the same one. first is the pause after the first eviction of a
// pod.
func (e pastEviction) then(at time.Time, first time.Duration) pastEviction {
	switch {
	case at.Equal(e.at):
		return e
	case e.pause == 0, at.Sub(e.at)-e.pause >= evictionReset:
		return pastEviction{at, first}
	}
	return pastEviction{at, min(2*e.pause, longestEvictionPause)}
}
