package logrotation

import (
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		pace       pace
		containers int
		want       time.Duration
	}{
		"a new log":                  {pace{}, 1, leastPause},
		"a log that doesn't grow":    {pace{known: true, size: 9 * mib}, 1, time.Second},
		"a slow log":                 {pace{known: true, size: mib, rate: 1000}, 1, time.Second},
		"half of the time":           {pace{known: true, size: 5 * mib, rate: 10 * mib}, 1, 250 * time.Millisecond},
		"a fast log":                 {pace{known: true, rate: 200 * mib}, 1, leastPause},
		"a log beyond its size":      {pace{known: true, size: 20 * mib, rate: mib}, 1, leastPause},
		"many containers":            {pace{known: true, rate: 1000 * mib}, 1000, 500 * time.Millisecond},
		"very many containers":       {pace{known: true}, 10_000, 5 * time.Second},
		"an endless rate":            {pace{known: true, rate: 1e300}, 1, leastPause},
		"a huge size and a low rate": {pace{known: true, size: -1 << 62, rate: 1}, 1, time.Second},
	} {
		if got := tc.pace.pause(10*mib, 10*time.Second, tc.containers); got.Round(time.Millisecond) != tc.want {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}

// A writer of any rate is looked at so often that its log exceeds its size by no more than it writes in leastPause.
func TestOvershoot(t *testing.T) {
	const maxSize = 10 << 20
	for _, rate := range []float64{1e3, 1e6, 1e7, 1e8, 1e9, 1e10} {
		now := time.Unix(1000, 0)
		var p pace
		looks, size := 0, 0.0
		for ; int64(size) < maxSize; looks++ {
			p = p.looked(int64(size), 1, now)
			pause := p.pause(maxSize, 10*time.Second, 1)
			now = now.Add(pause)
			size += rate * pause.Seconds()
		}
		over := size - maxSize
		if limit := rate*leastPause.Seconds() + 1; over > limit {
			t.Errorf("at %.0f bytes per second: %.0f bytes too many after %d looks; want %.0f at most", rate, over, looks, limit)
		}
		if most := int(maxSize/rate) + 20; looks > most {
			t.Errorf("at %.0f bytes per second: %d looks; want %d at most", rate, looks, most)
		}
	}
}

func TestLooked(t *testing.T) {
	now := time.Unix(1000, 0)
	p := pace{}.looked(100, 1, now)
	if p.known || p.rate != 0 {
		t.Errorf("after one look: %+v", p)
	}
	for i, tc := range []struct {
		size  int64
		inode uint64
		want  float64
	}{{1100, 1, 500}, {1100, 1, 250}, {1100, 1, 125}, {3100, 1, 1000}, {500, 2, 500}, {100, 2, 250}, {4100, 2, 2000}} {
		now = now.Add(2 * time.Second)
		if p = p.looked(tc.size, tc.inode, now); p.rate != tc.want || !p.known {
			t.Errorf("look %d: %+v; want a rate of %v", i, p, tc.want)
		}
	}
	if r := p.renewed(now); r.rate != p.rate || !r.known || r.size != 0 {
		t.Errorf("a new log: %+v", r)
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 5: 160 * time.Second, 6: maxBackoff, 1000: maxBackoff} {
		if got := backoff(failures, 10*time.Second); got != want {
			t.Errorf("after %d failures: %v; want %v", failures, got, want)
		}
	}
	if got := backoff(3, time.Hour); got != time.Hour {
		t.Errorf("with an interval of an hour: %v", got)
	}
}
