package grpcserver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// slowClock goes on by 10 ms with each reading. A reader gets its time only after others could read a later one.
type slowClock struct {
	clock.PassiveClock
	readings atomic.Int64
}

func (c *slowClock) Now() time.Time {
	now := time.Unix(0, 0).Add(time.Duration(c.readings.Add(1)) * 10 * time.Millisecond)
	runtime.Gosched()
	return now
}

// TestRateOfCallsAtOnce: calls at once get no more than the rate, in whatever order they read the clock.
func TestRateOfCallsAtOnce(t *testing.T) {
	const perSecond, burst, callers, calls = 10, 5, 64, 200
	c := &slowClock{}
	r := newRates(Limits{RequestsPerSecond: perSecond, Burst: burst}, c, nil)
	var allowed atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				if r.allow(holder{address: "10.0.0.1"}) {
					allowed.Add(1)
				}
			}
		})
	}
	group.Wait()
	seconds := c.readings.Load() / 100
	if most := burst + perSecond*(seconds+1); allowed.Load() > most || allowed.Load() < perSecond*seconds {
		t.Errorf("%d of %d calls in %d s are allowed; want %d", allowed.Load(), callers*calls, seconds, most)
	}
}
