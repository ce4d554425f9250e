package shutdown

import (
	"errors"
	"math"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// This file has logind, the bus and the clock when they do what they shouldn't.

// While logind reads its configuration, and if it grants too little for good, a lock is held, and a shutdown is noticed
// at once. A podexecd that starts during a shutdown admits no pod in that time.
func TestShutdownDuringNegotiation(t *testing.T) {
	inWorld(t, Periods(30*s, 15*s), time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.stop()
		w.set(func() { w.delay, w.settable = 10*s, false })
		w.run()
		w.wantLocks(1)
		w.prepare(true)
		w.wantAdmitted(false)
		w.want(5*s, changed, detected, "0 end a 5", "1 unlocked")
		w.stop()
		w.set(func() { w.did = nil })
		w.run()
		w.wantAdmitted(false)
	})
}

// With a logind that doesn't return its longest delay, a lock is held, and pods end in their time.
func TestUnclearDelay(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.stop()
		w.set(func() { w.unclear = errors.New("it is of type s") })
		w.run()
		w.want(time.Minute)
		w.wantLocks(1)
		if err := w.m.Trouble(); err == nil || err.Error() != "it is of type s" {
			t.Errorf("the trouble is %v", err)
		}
		w.prepare(true)
		w.want(10*s, "3 Shutdown: Shutdown manager detected shutdown event", "3 changed", "3 end a 20", "4 unlocked")
	})
}

// A delay that was changed since the connection was made counts.
func TestChangedDelay(t *testing.T) {
	inWorld(t, Periods(30*s, 15*s), time.Hour, []string{"a 0 30 60", "b 2000000000 30 60"}, func(w *world) {
		w.want(time.Minute)
		w.set(func() { w.delay = 10 * s })
		w.prepare(true)
		w.want(time.Minute, changed, detected, "0 end a 5", "5 end b 5", "10 unlocked")
	})
}

// However long the bus was away, a shutdown after its return is noticed before the pods' time is over.
func TestShutdownAfterALongLoss(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.set(func() { w.away = errors.New("gone") })
		w.lose()
		w.want(time.Hour + 10*s)
		w.set(func() { w.away = nil })
		w.prepare(true)
		w.want(6*s, "1 Shutdown: Shutdown manager detected shutdown event", "1 changed", "1 end a 20", "2 unlocked")
	})
}

// A podexecd that starts during a shutdown, when the bus is away, admits no pod before the recorded shutdown is over, and
// then all. If the bus is back before, the pods have the rest of the time.
func TestRestartDuringShutdownWithoutBus(t *testing.T) {
	for _, back := range []bool{false, true} {
		inWorld(t, Periods(30*s, 10*s), 30*s, []string{"a 0 60 60", "b 2000000000 60 60"}, func(w *world) {
			w.prepare(true)
			w.want(5*s, changed, detected, "0 end a 20")
			w.stop()
			w.set(func() { w.away, w.did = errors.New("gone"), nil })
			w.run()
			w.m.Await(w.t.Context())
			w.wantAdmitted(false)
			w.want(10*s - quiet)
			w.wantAdmitted(false)
			if !back {
				w.want(20*s, "27 changed")
				w.wantAdmitted(true)
				return
			}
			w.set(func() { w.away = nil })
			// 14 of 30 s are left.
			w.want(20*s, "11 Shutdown: Shutdown manager detected shutdown event", "11 changed", "11 end a 9", "20 end b 4")
			w.wantAdmitted(false)
		})
	}
	// A boot in that time ends it.
	inWorld(t, Periods(30*s, 10*s), 30*s, []string{"a 0 60 60"}, func(w *world) {
		w.prepare(true)
		w.want(5*s, changed, detected, "0 end a 20")
		w.stop()
		w.set(func() { w.preparing, w.did = false, nil })
		w.run()
		w.want(time.Minute, changed)
		w.wantAdmitted(true)
		w.wantLocks(1)
	})
}

// Signals that repeat a state change nothing. A state that is left and reached again at once is the same one; otherwise
// each change counts, and a lock is held all the time.
func TestRepeatedSignals(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 8", "b 2000000000 30 1"}, func(w *world) {
		w.prepare(true)
		w.prepare(true)
		w.want(s, changed, detected, "0 end a 20")
		w.prepare(true)
		w.prepare(false)
		w.prepare(true)
		w.want(s)
		w.wantLogged("ending a pod", 1)
		w.prepare(false)
		w.want(300*time.Millisecond, changed, cancelled)
		w.wantLocks(1)
		w.prepare(true)
		w.want(9*s, changed, detected, "0 end a 20", "6 end b 10", "7 unlocked")
		w.wantLocks(0)
	})
}

// A flood of signals has logind asked ten times a second.
func TestFloodOfSignals(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, nil, func(w *world) {
		asks := func() (n int) { w.set(func() { n = w.asks }); return n }
		before := asks()
		for range 1000 {
			w.set(w.signal)
			time.Sleep(time.Millisecond)
		}
		if n := asks() - before; n < 5 || n > 11 {
			t.Errorf("logind was asked %d times in a second; want about 10", n)
		}
	})
}

// A runtime that doesn't list the pods delays the shutdown for as long as logind grants, and no longer.
func TestHungRuntime(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), 30*s, []string{"a 0 30 60"}, func(w *world) {
		w.set(func() { w.restored = make(chan struct{}) })
		w.prepare(true)
		w.want(time.Minute, changed, detected, "30 end a 0", "30 unlocked")
		w.wantLogged("the container runtime hasn't listed the pods", 1)
	})
}

// The recorded times may be of another clock, or of another shutdown.
func TestRecordOfAnotherClock(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		last times
		want time.Duration
	}{
		"none":                       {times{}, 0},
		"under way":                  {times{Start: now.Add(-10 * s)}, 20 * s},
		"just begun":                 {times{Start: now}, 30 * s},
		"over":                       {times{Start: now.Add(-10 * s), End: now}, 0},
		"too long ago":               {times{Start: now.Add(-30 * s)}, 0},
		"in the future":              {times{Start: now.Add(time.Hour)}, 0},
		"at the beginning of time":   {times{Start: time.Unix(0, 0)}, 0},
		"long before all other time": {times{Start: time.Date(-9000, 1, 1, 0, 0, 0, 0, time.UTC)}, 0},
	} {
		r := &record{clock: clocktesting.NewFakePassiveClock(now), last: tc.last}
		if got := r.rest(30 * s); got != tc.want {
			t.Errorf("%s: %v is left; want %v", name, got, tc.want)
		}
	}
}

// The sum of the longest periods is no overflow.
func TestTotal(t *testing.T) {
	const most = math.MaxInt32 * time.Second
	for _, tc := range []struct {
		periods []Period
		want    time.Duration
	}{
		{nil, 0},
		{Periods(30*s, 10*s), 30 * s},
		{[]Period{{0, most}, {1, most}, {2, most}, {3, most}, {4, most}}, longest},
	} {
		if got := Total(tc.periods); got != tc.want {
			t.Errorf("%v: %v; want %v", tc.periods, got, tc.want)
		}
	}
}
