// Package clocktest has fake clocks for tests: Clock has a ticker, and Timers reports its timers. Only tests import it. It runs no goroutines.
package clocktest

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
)

// Clock is a fake clock. Its tickers tick only on TickOnce, which returns when the tick was handled. It has one ticker at a time.
type Clock struct {
	*testclock.FakeClock
	waiting sync.Cond
	// ticks is the channel on which the ticker's owner waits: a new one each time.
	ticks chan time.Time
}

// New returns a Clock at a fixed time.
func New() *Clock {
	return &Clock{FakeClock: testclock.NewFakeClock(time.Unix(1000, 0)), waiting: sync.Cond{L: &sync.Mutex{}}}
}

// NewTicker is part of clock.WithTicker. The ticker ignores the period.
func (c *Clock) NewTicker(time.Duration) clock.Ticker { return ticker{c} }

// TickOnce ticks once, and returns when the ticker's owner waits for the next tick.
func (c *Clock) TickOnce() {
	ticks := c.awaitOther(nil)
	ticks <- c.FakeClock.Now()
	c.awaitOther(ticks)
}

// awaitOther returns the channel on which the ticker's owner waits, once that is not than.
func (c *Clock) awaitOther(than chan time.Time) chan time.Time {
	c.waiting.L.Lock()
	defer c.waiting.L.Unlock()
	for c.ticks == than {
		c.waiting.Wait()
	}
	return c.ticks
}

type ticker struct{ *Clock }

// C is part of clock.Ticker.
func (t ticker) C() <-chan time.Time {
	t.waiting.L.Lock()
	defer t.waiting.L.Unlock()
	t.ticks = make(chan time.Time)
	t.waiting.Broadcast()
	return t.ticks
}

// Stop is part of clock.Ticker.
func (ticker) Stop() {}
