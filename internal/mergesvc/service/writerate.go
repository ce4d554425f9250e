package service

import (
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
)

// What one caller may write. Root and podconfigd's own user aren't limited.
const (
	writesPerSecond, writesBurst = 2, 20
	// bytesBurst is enough for the largest request.
	bytesPerSecond, bytesBurst = 256 << 10, 4 << 20
	// writeIdentities is how many callers have limits of their own. All others share one.
	writeIdentities = 1024
)

// writeShare limits the writes under way: each has a request of several MiB in memory.
var writeShare = share{total: 16, each: 2, reserve: 4}

// writeRates bound the writes that callers begin, and their bytes.
type writeRates struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	of    map[string]*writeRate
}

type writeRate struct{ calls, bytes *rate.Limiter }

func newWriteRates(c clock.PassiveClock) *writeRates {
	return &writeRates{clock: c, of: map[string]*writeRate{}}
}

// allow counts a write of some bytes, or returns why it is refused.
func (r *writeRates) allow(caller access.Caller, bytes int) error {
	if isOwner(caller) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	identity := caller.Identity
	if r.of[identity] == nil && len(r.of) >= writeIdentities {
		// A full bucket is as good as a new one.
		for name, of := range r.of {
			if of.calls.TokensAt(now) >= writesBurst && of.bytes.TokensAt(now) >= bytesBurst {
				delete(r.of, name)
			}
		}
		if len(r.of) >= writeIdentities {
			identity = ""
		}
	}
	of := r.of[identity]
	if of == nil {
		of = &writeRate{rate.NewLimiter(writesPerSecond, writesBurst), rate.NewLimiter(bytesPerSecond, bytesBurst)}
		r.of[identity] = of
	}
	switch {
	case !of.calls.AllowN(now, 1):
		return resourceExhausted("%s writes more than %d times a second; try again later", caller.Identity, writesPerSecond)
	case !of.bytes.AllowN(now, bytes):
		return resourceExhausted("%s writes more than %d bytes a second; try again later", caller.Identity, bytesPerSecond)
	}
	return nil
}
