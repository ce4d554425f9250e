package http

import (
	"time"

	"k8s.io/utils/clock"
)

// steps is a clock whose timers the test fires.
type steps struct {
	clock.RealClock
	timers chan *step
	// timeout is a request's timeout. A value that is sent to expired ends it for the current request.
	timeout time.Duration
	expired chan time.Time
}

type step struct {
	wait time.Duration
	c    chan time.Time
}

func (s steps) NewTimer(d time.Duration) clock.Timer {
	if d == s.timeout {
		return &step{c: s.expired}
	}
	t := &step{wait: d, c: make(chan time.Time, 1)}
	s.timers <- t
	return t
}

func (t *step) C() <-chan time.Time { return t.c }

func (t *step) Stop() bool { return true }

func (t *step) Reset(time.Duration) bool { return true }
