package diskusage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// run runs a Meter of the disk until the test ends.
func (d *disk) run(change func(*Meter)) *Meter {
	d.t.Helper()
	m := New(d.config())
	if change != nil {
		change(m)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	d.t.Cleanup(func() { cancel(); running.Wait() })
	return m
}

// filled returns a pod with an emptyDir of that many files.
func (d *disk) filled(uid types.UID, files int) *v1.Pod {
	d.t.Helper()
	p := pod(uid, "x")
	for i := range files {
		d.write(0, d.volume(p, "x"), fmt.Sprint(i))
	}
	return p
}

// An endless count of one pod doesn't delay the figures of others.
func TestLargePodsDelayNoOthers(t *testing.T) {
	d := newDisk(t)
	var hogs, small []*v1.Pod
	for i := range 2 * slowWorkers {
		hogs = append(hogs, d.filled(types.UID(fmt.Sprint("hog", i)), 10*tickEvery))
		small = append(small, d.filled(types.UID(fmt.Sprint("small", i)), 5))
	}
	// Each count of more than one tick is slow, and no slow count runs.
	m := d.run(func(m *Meter) { m.quickTime = 0; m.turn <- struct{}{} })
	got := m.Counts(t.Context(), small, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for uid, u := range m.Counts(ctx, hogs, 0) {
		if !u.At.IsZero() {
			t.Errorf("%s is counted: %+v", uid, u)
		}
	}
	for range 3 {
		again := m.Counts(t.Context(), small, 0)
		for uid, u := range again {
			if !u.At.After(got[uid].At) || u.EmptyDirs["x"].Inodes != 6 || u.Err != nil {
				t.Errorf("%s: %+v", uid, u)
			}
		}
		got = again
	}
	<-m.turn
	for uid, u := range m.Counts(t.Context(), hogs, 0) {
		if u.EmptyDirs["x"].Inodes != 10*tickEvery+1 || u.Err != nil {
			t.Errorf("%s: %+v", uid, u)
		}
	}
}

// Callers that don't wait for the end of a count receive the result so far.
func TestUnfinished(t *testing.T) {
	d := newDisk(t)
	p := d.filled("a", 10*tickEvery)
	m := d.run(func(m *Meter) { m.quickTime = 0; m.cfg.MaxTime = time.Hour })
	e := &entry{pod: p}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := errors.New("stop")
	u := m.counting(e, func(files int) error {
		if files >= 3*tickEvery {
			return stop
		}
		return nil
	}).run()
	if !errors.Is(u.Err, stop) {
		t.Fatal(u.Err)
	}
	e.ended = make(chan struct{})
	m.mu.Lock()
	m.pods["a"] = e
	m.mu.Unlock()
	cancel()
	if got := m.Counts(ctx, []*v1.Pod{p}, 0)["a"]; got.Unfinished.Inodes < 3*tickEvery-1 || !got.At.IsZero() {
		t.Errorf("%+v", got)
	}
}

// A pod that exceeds a bound is uncountable. A pod on a slow disk isn't.
func TestBounds(t *testing.T) {
	d := newDisk(t)
	p := d.filled("a", 10*tickEvery)
	for _, c := range []struct {
		name        string
		change      func(*Meter)
		want        error
		uncountable bool
	}{
		{"files", func(m *Meter) { m.cfg.MaxFiles = 5 * tickEvery }, errTooManyFiles, true},
		{"files of a slow count", func(m *Meter) { m.cfg.MaxFiles, m.quickTime = 5*tickEvery, 0 }, errTooManyFiles, true},
		{"time", func(m *Meter) { m.cfg.MaxTime, m.quickTime, m.enough = 1, 0, 3*tickEvery }, errSlowDisk, false},
		{"time for many files", func(m *Meter) { m.cfg.MaxTime, m.quickTime, m.enough = 1, 0, 1 }, errTooLong, true},
		{"none", func(*Meter) {}, nil, false},
	} {
		u := d.run(c.change).Counts(t.Context(), []*v1.Pod{p}, 0)["a"]
		if !errors.Is(u.Err, c.want) || u.Uncountable != c.uncountable || u.At.IsZero() {
			t.Errorf("%s: %v, uncountable: %v", c.name, u.Err, u.Uncountable)
		}
	}
}

// Figures are counted again when they are too old, and large pods less often.
func TestAge(t *testing.T) {
	d := newDisk(t)
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	small, large := d.filled("small", 1), d.filled("large", 10*tickEvery)
	pods := []*v1.Pod{small, large}
	m := d.run(func(m *Meter) { m.cfg.Clock, m.quickTime = clock, 0 })
	first := m.Counts(t.Context(), pods, time.Minute)
	step := func(d time.Duration, want ...types.UID) {
		t.Helper()
		clock.SetTime(clock.Now().Add(d))
		got := m.Counts(t.Context(), pods, 10*time.Second)
		for _, p := range pods {
			now := got[p.UID].At.Equal(clock.Now())
			if wanted := len(want) > 0 && want[0] == p.UID; wanted {
				want = want[1:]
				if !now {
					t.Errorf("%s isn't counted again", p.UID)
				}
			} else if now {
				t.Errorf("%s is counted again", p.UID)
			}
		}
	}
	if len(first) != 2 {
		t.Fatal(first)
	}
	step(10 * time.Second)
	m.mu.Lock()
	m.pods["large"].restUntil = clock.Now().Add(30 * time.Second)
	m.mu.Unlock()
	step(time.Second, "small")
	step(30*time.Second, "small", "large")
	step(-time.Hour, "small", "large")
	// A pod without requests is dropped.
	clock.SetTime(clock.Now().Add(dropAfter))
	m.Counts(t.Context(), pods[:1], 0)
	clock.SetTime(clock.Now().Add(time.Minute))
	m.Counts(t.Context(), pods[:1], 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pods) != 1 {
		t.Errorf("%d pods are remembered", len(m.pods))
	}
}
