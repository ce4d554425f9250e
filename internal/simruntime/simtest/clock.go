package simtest

import (
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

// Clock is a fake clock that reports its timers. A simulated runtime and the tested code can share one.
type Clock struct {
	*testingclock.FakeClock
	// Timers receives the duration of each new timer. Its buffer is 1000.
	Timers chan time.Duration
}

// NewClock returns a Clock at a fixed time.
func NewClock() *Clock {
	return &Clock{FakeClock: testingclock.NewFakeClock(time.Unix(1_000_000, 0)), Timers: make(chan time.Duration, 1000)}
}

// NewTimer is part of clock.Clock.
func (c *Clock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.Timers <- d
	return timer
}
