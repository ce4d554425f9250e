package http

import (
	"net/http"
	"strconv"
	"time"
)

const (
	// maxRetryAfter is the longest Retry-After that is respected.
	maxRetryAfter = 5 * time.Minute
	// leastWait is the least time between the end of a request and the next one, unless CheckFrequency is less.
	leastWait = time.Second
	// secondLook is the wait for the response that confirms the previous one.
	secondLook = time.Second
	// jitter is the part by which a wait may be longer or shorter.
	jitter = 0.1
)

// pace computes the time of the next request.
type pace struct {
	every time.Duration
	// random returns a number in [0,1).
	random func() float64
	// failures is how many requests in a row failed.
	failures int
}

// next returns how long to wait after a request that took so long and ended with err.
func (p *pace) next(took time.Duration, err error) time.Duration {
	if err == nil {
		p.failures = 0
		return p.spread(p.every, took)
	}
	p.failures++
	wait := p.every
	// Beyond 2^20 s every CheckFrequency is shorter.
	if p.failures <= 20 {
		wait = min(wait, time.Second<<p.failures)
	}
	wait = p.spread(wait, took)
	if asked := retryAfter(err); asked > 0 {
		// Never earlier than requested.
		asked += time.Duration(float64(asked) * jitter * p.random())
		wait = max(wait, min(asked, maxRetryAfter))
	}
	return wait
}

// spread counts the wait from the start of the request.
func (p *pace) spread(wait, took time.Duration) time.Duration {
	wait += time.Duration(float64(wait) * jitter * (2*p.random() - 1))
	return max(wait-took, min(leastWait, p.every))
}

// retryAfterHeader returns how long the server asks to wait, zero if it doesn't. A date is compared with the server's
// own.
func retryAfterHeader(h http.Header, now time.Time) time.Duration {
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
func clampRetry(wait time.Duration) time.Duration { return min(max(wait, leastWait), maxRetryAfter) }
