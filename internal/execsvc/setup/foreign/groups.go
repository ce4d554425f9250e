package foreign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// changeLimit is the limit of one change of a volume's group.
const changeLimit = time.Hour

// errStopped is the cause of the end of a change by Stop.
var errStopped = errors.New("the volume is unpublished")

// Groups changes the groups of volumes' files, which may take longer than the call that waits for it: one change for each
// mount point at a time. Close ends its goroutines, one for each change.
type Groups struct {
	// set changes a volume. It returns soon after its context has ended. volume is the name of the volume for people.
	set func(ctx context.Context, volume string, r ownership.Request) error

	mu      sync.Mutex
	closed  bool
	running map[string]*change
	group   sync.WaitGroup
}

// change is a change that runs, or that has ended and has a result for the next Publish.
type change struct {
	cancel context.CancelCauseFunc
	// done is closed when err is set.
	done chan struct{}
	err  error
}

// SetGroup changes a volume to a group, in a helper.
func (h *Helpers) SetGroup(ctx context.Context, volume string, r ownership.Request) error {
	_, err := h.Do(ctx, volume, Job{Group: &r})
	return err
}

// NewGroups returns Groups whose changes are made by set, which is a Helpers' SetGroup outside of tests.
func NewGroups(set func(ctx context.Context, volume string, r ownership.Request) error) *Groups {
	return &Groups{set: set, running: map[string]*change{}}
}

// Change has the files changed, and waits for it. If ctx ends first, the next call for the same mount point waits again.
func (g *Groups) Change(ctx context.Context, volume string, r ownership.Request) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return ErrClosed
	}
	c := g.running[r.Dir]
	if c == nil {
		c = g.start(ctx, volume, r)
	}
	g.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("the group of its files is still being changed: %w", context.Cause(ctx))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[r.Dir] == c {
		delete(g.running, r.Dir)
	}
	return c.err
}

// start starts a change. mu is held.
func (g *Groups) start(ctx context.Context, volume string, r ownership.Request) *change {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &change{cancel: cancel, done: make(chan struct{})}
	g.running[r.Dir] = c
	g.group.Go(func() {
		defer close(c.done)
		defer cancel(nil)
		limited, stop := context.WithTimeoutCause(ctx, changeLimit, fmt.Errorf("it took longer than %s", changeLimit))
		defer stop()
		c.err = g.set(limited, volume, r)
	})
	return c
}

// Stop ends the change of a mount point.
func (g *Groups) Stop(ctx context.Context, dir string) {
	g.mu.Lock()
	c := g.running[dir]
	delete(g.running, dir)
	g.mu.Unlock()
	if c == nil {
		return
	}
	c.cancel(errStopped)
	select {
	case <-c.done:
	case <-ctx.Done():
	}
}

// Close ends all changes.
func (g *Groups) Close() {
	g.mu.Lock()
	g.closed = true
	for _, c := range g.running {
		c.cancel(ErrClosed)
	}
	g.mu.Unlock()
	g.group.Wait()
}
