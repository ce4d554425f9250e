package podconfigd

import (
	"context"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// firstReadTime is how long podconfigd accepts no connections over TCP while its sources are read for the first time. A
// client waits for its handshake for 5 s.
const firstReadTime = 3 * time.Second

// firstReads follows the first reading of each source. A gateway that restarts then reads its pods before it computes the
// handshakes of its nodes, and they get the present pods, rather than the stored ones and a revision after that.
type firstReads struct {
	mu      sync.Mutex
	missing map[string]bool
	done    chan struct{}
}

func newFirstReads(of []sourceconfig.Source) *firstReads {
	f := &firstReads{missing: map[string]bool{}, done: make(chan struct{})}
	for _, s := range of {
		f.missing[s.Name] = true
	}
	if len(of) == 0 {
		close(f.done)
	}
	return f
}

// after returns apply, after which the set's source counts as read. A source that can't be read counts too.
func (f *firstReads) after(apply func(manifest.Set)) func(manifest.Set) {
	return func(set manifest.Set) {
		apply(set)
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.missing[set.Source] {
			return
		}
		if delete(f.missing, set.Source); len(f.missing) == 0 {
			close(f.done)
		}
	}
}

// within returns a channel that is closed when all sources were read, after the limit, or when ctx ends.
func (f *firstReads) within(ctx context.Context, limit time.Duration) <-chan struct{} {
	ctx, cancel := context.WithTimeout(ctx, limit)
	go func() {
		defer cancel()
		select {
		case <-f.done:
		case <-ctx.Done():
		}
	}()
	return ctx.Done()
}
