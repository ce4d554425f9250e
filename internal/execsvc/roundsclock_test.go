package execsvc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// roundsClock is the real clock, or some nanoseconds ahead of it; its housekeeping ticker counts the ticks that were
// received.
type roundsClock struct {
	clock.RealClock
	ctx    context.Context
	rounds *atomic.Int64
	ahead  *atomic.Int64
	group  *sync.WaitGroup
}

func (c roundsClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

func (c roundsClock) Since(at time.Time) time.Duration { return c.Now().Sub(at) }

func (c roundsClock) NewTicker(d time.Duration) clock.Ticker {
	ticker := c.RealClock.NewTicker(d)
	if d != housekeepingPeriod {
		return ticker
	}
	taken := make(chan time.Time)
	c.group.Go(func() {
		for {
			select {
			case now := <-ticker.C():
				select {
				case taken <- now:
					c.rounds.Add(1)
				case <-c.ctx.Done():
					return
				}
			case <-c.ctx.Done():
				return
			}
		}
	})
	return countedTicker{Ticker: ticker, taken: taken}
}

type countedTicker struct {
	clock.Ticker
	taken chan time.Time
}

func (t countedTicker) C() <-chan time.Time { return t.taken }
