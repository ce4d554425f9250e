package pace

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// MaxRetryAfter is the longest Retry-After that is respected.
	MaxRetryAfter = 5 * time.Minute
	// leastWait is the least time between the end of a request and the next one, unless the interval is less.
	leastWait = time.Second
	// firstRetry is the wait after a failure, unless the interval is less. It doubles up to the interval.
	firstRetry = 2 * time.Second
	// jitter is the part by which a wait may be longer or shorter.
	jitter = 0.1
)

// Pace computes the time of the next request. Make it with New.
type Pace struct {
	every time.Duration
	// random returns a number in [0,1).
	random func() float64
	// retries are the waits after the next failures.
	retries wait.Backoff
}

// New returns a Pace for an interval. random returns a number in [0,1).
func New(every time.Duration, random func() float64) *Pace {
	p := &Pace{every: every, random: random}
	p.retries = p.newRetries()
	return p
}

// newRetries has no jitter of its own, as that would only lengthen a wait.
func (p *Pace) newRetries() wait.Backoff {
	const doublings = 40 // the cap ends the growth before
	return wait.Backoff{Duration: min(firstRetry, p.every), Factor: 2, Steps: doublings, Cap: p.every}
}

// Next returns how long to wait after a request that took so long and ended with err.
func (p *Pace) Next(took time.Duration, err error) time.Duration {
	if err == nil {
		p.retries = p.newRetries()
		return p.spread(p.every, took)
	}
	pause := p.spread(p.retries.Step(), took)
	if asked := askedBy(err); asked > 0 {
		// Never earlier than requested.
		asked += time.Duration(float64(asked) * jitter * p.random())
		pause = max(pause, min(asked, MaxRetryAfter))
	}
	return pause
}

// spread counts the pause from the start of the request.
func (p *Pace) spread(pause, took time.Duration) time.Duration {
	pause += time.Duration(float64(pause) * jitter * (2*p.random() - 1))
	return max(pause-took, min(leastWait, p.every))
}

// askedBy returns how long the server that sent an error asks to wait: the error wraps one with a method RetryAfter.
// Zero: it doesn't.
func askedBy(err error) time.Duration {
	var asking interface{ RetryAfter() time.Duration }
	if errors.As(err, &asking) {
		return asking.RetryAfter()
	}
	return 0
}

// RetryAfter returns how long the server asks to wait, zero if it doesn't. A date is compared with the server's own.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return clampRetry(time.Duration(seconds) * time.Second)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return clampRetry(at.Sub(now))
}

// clampRetry bounds the wait: even a Retry-After of zero leads to a wait.
func clampRetry(asked time.Duration) time.Duration { return min(max(asked, leastWait), MaxRetryAfter) }
