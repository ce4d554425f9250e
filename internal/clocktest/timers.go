package clocktest

import (
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
)

// Timers is a fake clock that reports its timers. Several parts of a test may share it.
type Timers struct {
	*testclock.FakeClock
	// Set receives the duration of each timer that is set, for the first time or again. It has room for 1000.
	Set chan time.Duration
}

// NewTimers returns a Timers at the given time.
func NewTimers(at time.Time) *Timers {
	return &Timers{FakeClock: testclock.NewFakeClock(at), Set: make(chan time.Duration, 1000)}
}

// NewTimer is part of clock.Clock.
func (c *Timers) NewTimer(d time.Duration) clock.Timer {
	t := timer{c.FakeClock.NewTimer(d), c}
	c.Set <- d
	return t
}

// AfterFunc is part of clock.WithDelayedExecution. f runs within Step.
func (c *Timers) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := timer{c.FakeClock.AfterFunc(d, f), c}
	c.Set <- d
	return t
}

type timer struct {
	clock.Timer
	clock *Timers
}

// Reset is part of clock.Timer.
func (t timer) Reset(d time.Duration) bool {
	active := t.Timer.Reset(d)
	t.clock.Set <- d
	return active
}
