package stats

import (
	"sync"
	"time"
)

const (
	// window is the least time between two readings for a rate; firstWindow is that for the first rate.
	window, firstWindow = 10 * time.Second, time.Second
	// maxWindow is the age at which a reading is no longer used.
	maxWindow = 10 * time.Minute
)

// rates computes nanocores as the kubelet does: a rate is kept for ten seconds, so that all clients get one rate
// without spikes. Values that haven't been read for some time are removed.
type rates struct {
	mu    sync.Mutex
	by    map[string]sample
	swept time.Time
}

// rate is a rate in nanocores, and the interval that it is the mean of. Zero: the runtime measured it.
type rate struct {
	value uint64
	over  time.Duration
}

// nanoCores returns the value; nil if there is no rate.
func (r *rate) nanoCores() *uint64 {
	if r == nil {
		return nil
	}
	return &r.value
}

// plus returns the sum of the known rates.
func (r *rate) plus(other *rate) *rate {
	switch {
	case r == nil:
		return other
	case other == nil:
		return r
	}
	return &rate{r.value + other.value, max(r.over, other.over)}
}

// sample is a value and the rate up to it; nil if there is none yet.
type sample struct {
	at   time.Time
	used uint64
	rate *rate
}

// of returns the rate for that key; nil if unknown.
func (r *rates) of(key string, at time.Time, used *uint64) *rate {
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

// next returns the sample to keep, and the current rate.
func (s sample) next(at time.Time, used uint64) (sample, *rate) {
	since := at.Sub(s.at)
	switch {
	case s.at.IsZero() || since > maxWindow || since < -window || used < s.used:
		// It is another object, or was restarted.
		return sample{at: at, used: used}, nil
	case since >= window:
		s = sample{at: at, used: used, rate: perSecond(used-s.used, since)}
	case since >= firstWindow && s.rate == nil:
		return s, perSecond(used-s.used, since)
	}
	return s, s.rate
}

func perSecond(n uint64, d time.Duration) *rate {
	return &rate{uint64(float64(n) / d.Seconds()), d}
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
