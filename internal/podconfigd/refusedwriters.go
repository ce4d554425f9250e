package podconfigd

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/podstream/podstream/internal/access"
)

const (
	// refusalsBurst and refusalsInterval bound the lines about one caller without the right to write: so many at once, and one
	// more in each interval.
	refusalsBurst    = 30
	refusalsInterval = 2 * time.Second
	// refusalsIdentities is how many callers have bounds of their own. All others share one.
	refusalsIdentities = 1024
)

// refusedWriters logs the calls of callers without the right to write. Such a caller must not fill the disk, nor hide the lines of
// another one.
type refusedWriters struct {
	log *slog.Logger
	mu  sync.Mutex
	of  map[string]*refusedWriter
}

// refusedWriter is the bound of a caller, and how many lines were left out since its last one.
type refusedWriter struct {
	*rate.Limiter
	leftOut int
}

// add logs a call, or counts it.
func (r *refusedWriters) add(c access.Caller, method string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	identity := c.Identity
	if r.of[identity] == nil && len(r.of) >= refusalsIdentities {
		// A full bucket is as good as a new one.
		for name, of := range r.of {
			if of.Tokens() >= refusalsBurst {
				delete(r.of, name)
			}
		}
		if len(r.of) >= refusalsIdentities {
			identity = ""
		}
	}
	of := r.of[identity]
	if of == nil {
		of = &refusedWriter{Limiter: rate.NewLimiter(rate.Every(refusalsInterval), refusalsBurst)}
		r.of[identity] = of
	}
	if !of.Allow() {
		of.leftOut++
		return
	}
	keys := []any{"decision", "refused", "identity", c.Identity, "role", c.Role.String(), "method", method, "error", err}
	if of.leftOut > 0 {
		keys = append(keys, "leftOut", of.leftOut)
		of.leftOut = 0
	}
	r.log.Warn("manifest write", keys...)
}
