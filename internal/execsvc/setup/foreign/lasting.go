package foreign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errStopped is the cause of the end of a job by Stop.
var errStopped = errors.New("the volume is unpublished")

// Lasting makes calls that may take longer than the caller that waits for them: one at a time for each key. The next caller
// with the same key waits for the same call, and gets its result. Close ends its goroutines, one for each call.
type Lasting struct {
	limit time.Duration
	// still says what hasn't ended yet.
	still string

	mu      sync.Mutex
	closed  bool
	running map[string]*lasting
	group   sync.WaitGroup
}

// lasting is a call that runs, or that has ended and has a result for the next caller.
type lasting struct {
	cancel context.CancelCauseFunc
	// done is closed when err is set.
	done chan struct{}
	err  error
}

// NewLasting returns a Lasting. limit is that of one call, and still begins the error of a caller whose context ends first,
// such as "the device is still being formatted".
func NewLasting(limit time.Duration, still string) *Lasting {
	return &Lasting{limit: limit, still: still, running: map[string]*lasting{}}
}

// Do makes the call, unless that of an earlier Do with this key has no caller yet to get its result, and returns the
// result. If ctx ends first, the call continues. call must return soon after its context has ended.
func (l *Lasting) Do(ctx context.Context, key string, call func(ctx context.Context) error) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	c := l.running[key]
	if c == nil {
		c = l.start(ctx, key, call)
	}
	l.mu.Unlock()
	if err := l.await(ctx, key, c); err != nil {
		return err
	}
	return c.err
}

// start starts a call. mu is held.
func (l *Lasting) start(ctx context.Context, key string, call func(ctx context.Context) error) *lasting {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &lasting{cancel: cancel, done: make(chan struct{})}
	l.running[key] = c
	l.group.Go(func() {
		defer close(c.done)
		defer cancel(nil)
		limited, stop := context.WithTimeoutCause(ctx, l.limit, fmt.Errorf("it took longer than %s", l.limit))
		defer stop()
		c.err = call(limited)
	})
	return c
}

// await returns when the call has ended, and forgets it then.
func (l *Lasting) await(ctx context.Context, key string, c *lasting) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", l.still, context.Cause(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[key] == c {
		delete(l.running, key)
	}
	return nil
}

// Has reports whether a call with this key runs, or has a result that no caller got.
func (l *Lasting) Has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[key] != nil
}

// Wait returns when no call with this key runs, and drops the result.
func (l *Lasting) Wait(ctx context.Context, key string) error {
	l.mu.Lock()
	c := l.running[key]
	l.mu.Unlock()
	if c == nil {
		return nil
	}
	return l.await(ctx, key, c)
}

// Stop ends the call with this key, and drops the result.
func (l *Lasting) Stop(ctx context.Context, key string) {
	l.mu.Lock()
	c := l.running[key]
	l.mu.Unlock()
	if c == nil {
		return
	}
	c.cancel(errStopped)
	_ = l.await(ctx, key, c) // If ctx ends first, the next Do waits for this call.
}

// Close ends all calls. No call is made after it.
func (l *Lasting) Close() {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.running {
		c.cancel(ErrClosed)
	}
	l.mu.Unlock()
	l.group.Wait()
}
