package stats

import (
	"sync"
	"time"
)

const (
	// window is between two readings that make a rate; firstWindow is enough for the first one.
	window, firstWindow = 10 * time.Second, time.Second
	// maxWindow is after how long a reading says nothing of now any more.
	maxWindow = 10 * time.Minute
)

// rates makes nanocores of the nanoseconds that were read, as the kubelet does: the rate stands until ten seconds have gone by, so that many who
// ask see one rate, and no spikes. It forgets what hasn't been read for a while.
type rates struct {
	mu    sync.Mutex
	by    map[string]sample
	swept time.Time
}

// sample is what was read, and the rate up to then; nil if there is none yet.
type sample struct {
	at   time.Time
	used uint64
	rate *uint64
}

// of is the rate of what has that key; nil if it isn't known.
func (r *rates) of(key string, at time.Time, used *uint64) *uint64 {
	if used == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]sample{}
	}
	r.sweep(at)
	next, rate := r.by[key].next(at, *used)
	r.by[key] = next
	return rate
}

// next is the sample to keep, and the rate now.
func (s sample) next(at time.Time, used uint64) (sample, *uint64) {
	since := at.Sub(s.at)
	switch {
	case s.at.IsZero() || since > maxWindow || since < -window || used < s.used:
		// It is another one, or starts anew.
		return sample{at: at, used: used}, nil
	case since >= window:
		s = sample{at: at, used: used, rate: perSecond(used-s.used, since)}
	case since >= firstWindow && s.rate == nil:
		return s, perSecond(used-s.used, since)
	}
	return s, s.rate
}

func perSecond(n uint64, d time.Duration) *uint64 {
	return new(uint64(float64(n) / d.Seconds()))
}

func (r *rates) sweep(now time.Time) {
	if now.Sub(r.swept) < maxWindow {
		return
	}
	r.swept = now
	for key, s := range r.by {
		if now.Sub(s.at) > maxWindow {
			delete(r.by, key)
		}
	}
}
