package csivolume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// stopLimit is how long stop waits for a change that it has ended. A file system that doesn't answer keeps it.
const stopLimit = 10 * time.Second

var (
	errClosed  = errors.New("podexecd is stopping")
	errStopped = errors.New("the volume is unpublished")
)

// groups changes the groups of volumes' files: one change for each mount point at a time.
type groups struct {
	waits *nodefs.Waits
	set   func(context.Context, ownership.Request) error
	limit time.Duration

	mu      sync.Mutex
	closed  bool
	running map[string]*change
	group   sync.WaitGroup
}

// change is a change that runs, or that has ended and has a result for the next Publish.
type change struct {
	cancel context.CancelCauseFunc
	// done is closed when err is set. left is closed when no system call is made any more.
	done, left chan struct{}
	err        error
}

func newGroups(waits *nodefs.Waits, set func(context.Context, ownership.Request) error) *groups {
	return &groups{waits: waits, set: set, limit: stopLimit, running: map[string]*change{}}
}

// change has the files changed, and waits for it. If ctx ends first, the next call for the same mount point waits again.
func (g *groups) change(ctx context.Context, pod nodefs.Pod, r ownership.Request) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errClosed
	}
	c := g.running[r.Dir]
	if c == nil {
		c = g.start(ctx, pod, r)
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
func (g *groups) start(ctx context.Context, pod nodefs.Pod, r ownership.Request) *change {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &change{cancel: cancel, done: make(chan struct{}), left: make(chan struct{})}
	g.running[r.Dir] = c
	g.group.Go(func() {
		defer close(c.done)
		_, c.err = nodefs.Look(ctx, g.waits, pod, r.Dir, func() (struct{}, error) {
			defer close(c.left)
			return struct{}{}, g.set(ctx, r)
		}, nil)
		// After its limit the change is ended.
		cancel(c.err)
	})
	return c
}

// stop ends the change of a mount point, and waits a while for its last system call.
func (g *groups) stop(ctx context.Context, dir string) {
	g.mu.Lock()
	c := g.running[dir]
	delete(g.running, dir)
	g.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case <-c.done:
		if !errors.Is(c.err, nodefs.ErrNoAnswer) {
			return // It has ended by itself, or was never started.
		}
	default:
	}
	c.cancel(errStopped)
	timer := time.NewTimer(g.limit)
	defer timer.Stop()
	select {
	case <-c.left:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// close ends all changes. A system call that doesn't return is left behind.
func (g *groups) close() {
	g.mu.Lock()
	g.closed = true
	for _, c := range g.running {
		c.cancel(errClosed)
	}
	g.mu.Unlock()
	g.group.Wait()
}
