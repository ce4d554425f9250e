package apivolumes

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

const (
	// timeout is the time limit of a request.
	timeout = 10 * time.Second
	// maxReads is the number of requests at a time, of all kinds.
	maxReads = 8
	// The pauses between the reads of an object that is awaited grow from firstPause to lastPause. Up to half of a pause is
	// added at random, so that many nodes don't read at the same time.
	firstPause, lastPause = 250 * time.Millisecond, 15 * time.Second
	maxJitter             = 0.5
)

// reads reads objects of one kind by their names. It is safe for concurrent use.
type reads[T any] struct {
	get func(ctx context.Context, name types.NamespacedName) (T, error)
	of  *Volumes

	mu    sync.Mutex
	under map[types.NamespacedName]*read[T]
}

// read is one request, and its result once done is closed.
type read[T any] struct {
	done   chan struct{}
	object T
	err    error
}

func newReads[T any](v *Volumes, get func(ctx context.Context, name types.NamespacedName) (T, error)) *reads[T] {
	return &reads[T]{get: get, of: v, under: map[types.NamespacedName]*read[T]{}}
}

// read returns the object. A read that is under way is shared. It goes on when ctx ends, as others may wait for it.
func (r *reads[T]) read(ctx context.Context, name types.NamespacedName) (T, error) {
	of := r.begin(name)
	select {
	case <-of.done:
		return of.object, of.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (r *reads[T]) begin(name types.NamespacedName) *read[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.under[name]; of != nil {
		return of
	}
	of := &read[T]{done: make(chan struct{})}
	r.under[name] = of
	if !r.of.run(func() { r.carryOut(name, of) }) {
		of.err = context.Canceled
		delete(r.under, name)
		close(of.done)
	}
	return of
}

// carryOut makes the request, when there is a place for it.
func (r *reads[T]) carryOut(name types.NamespacedName, of *read[T]) {
	select {
	case r.of.slots <- struct{}{}:
		limited, cancel := context.WithTimeout(r.of.ctx, timeout)
		of.object, of.err = r.get(limited, name)
		cancel()
		<-r.of.slots
	case <-r.of.ctx.Done():
		of.err = r.of.ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.under, name)
	close(of.done)
}

// await reads the object until enough returns true, and then returns nil. When ctx ends before, it returns the error that
// enough gave last, or the error of ctx. Between two reads there is a pause.
func (r *reads[T]) await(ctx context.Context, name types.NamespacedName, enough func(T, error) (bool, error)) error {
	pauses := newPauses()
	var last error
	for {
		object, err := r.read(ctx, name)
		if ctx.Err() == nil {
			done, why := enough(object, err)
			if done {
				return why
			}
			last = why
		}
		if !pause(ctx, r.of.cfg.Clock, pauses.Step()) {
			if last == nil {
				last = ctx.Err()
			}
			return last
		}
	}
}

func newPauses() wait.Backoff {
	return wait.Backoff{Duration: firstPause, Factor: 1.5, Jitter: maxJitter, Steps: 100, Cap: lastPause}
}

// pause waits, and returns false if ctx has ended.
func pause(ctx context.Context, c clock.Clock, d time.Duration) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// jittered returns a time from d to d and a half.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/2) //nolint:gosec // It keeps no secret.
}
