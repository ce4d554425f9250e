package service

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
)

// What one caller may write. Root and podconfigd's own user aren't limited.
const (
	writesPerSecond, writesBurst = 2, 20
	// bytesBurst is enough for the largest request.
	bytesPerSecond, bytesBurst = 256 << 10, 4 << 20
	// Each document that a write changes is a line of the log. The burst is enough for the largest write: it replaces as many
	// documents as a deployer may have, and prunes as many.
	changesPerSecond, changesBurst = 10, 2 * maxDeployerDocuments
	// writeIdentities is how many callers have limits of their own. All others share one.
	writeIdentities = 1024
)

// writeShare limits the writes under way: each has a request of several MiB in memory.
var writeShare = share{total: 16, each: 2, reserve: 4}

// writeRates bound the writes that callers begin, their bytes, and the documents that they change.
type writeRates struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	of    map[string]*writeRate
}

type writeRate struct{ calls, bytes, changes *rate.Limiter }

func newWriteRate() *writeRate {
	return &writeRate{
		calls: rate.NewLimiter(writesPerSecond, writesBurst), bytes: rate.NewLimiter(bytesPerSecond, bytesBurst),
		changes: rate.NewLimiter(changesPerSecond, changesBurst),
	}
}

// full reports whether the rate is as good as a new one.
func (w *writeRate) full(now time.Time) bool {
	return w.calls.TokensAt(now) >= writesBurst && w.bytes.TokensAt(now) >= bytesBurst && w.changes.TokensAt(now) >= changesBurst
}

func newWriteRates(c clock.PassiveClock) *writeRates {
	return &writeRates{clock: c, of: map[string]*writeRate{}}
}

// allow counts a write of some bytes, or returns why it is refused.
func (r *writeRates) allow(caller access.Caller, bytes int) error {
	if isOwner(caller) {
		return nil
	}
	now := r.clock.Now()
	of := r.rateOf(caller.Identity, now)
	switch {
	case !of.calls.AllowN(now, 1):
		return resourceExhausted("%s writes more than %d times a second; try again later", caller.Identity, writesPerSecond)
	case !of.bytes.AllowN(now, bytes):
		return resourceExhausted("%s writes more than %d bytes a second; try again later", caller.Identity, bytesPerSecond)
	}
	return nil
}

// allowChanges counts the documents that a write is about to change, or returns why it is refused.
func (r *writeRates) allowChanges(caller access.Caller, documents int) error {
	if isOwner(caller) {
		return nil
	}
	now := r.clock.Now()
	if !r.rateOf(caller.Identity, now).changes.AllowN(now, documents) {
		return resourceExhausted("%s changes more than %d documents a second; try again later", caller.Identity, changesPerSecond)
	}
	return nil
}

// rateOf returns the rate of an identity.
func (r *writeRates) rateOf(identity string, now time.Time) *writeRate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[identity] == nil && len(r.of) >= writeIdentities {
		for name, of := range r.of {
			if of.full(now) {
				delete(r.of, name)
			}
		}
		if len(r.of) >= writeIdentities {
			identity = ""
		}
	}
	of := r.of[identity]
	if of == nil {
		of = newWriteRate()
		r.of[identity] = of
	}
	return of
}
