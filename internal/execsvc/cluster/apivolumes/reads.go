package apivolumes

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// timeout is the time limit of a request.
	timeout = 10 * time.Second
	// maxReads is the number of reads at a time, of all kinds.
	maxReads = 8
	// The pauses between the reads of an object that is awaited grow from firstPause to lastPause. Up to half of a pause is
	// added at random, so that many nodes don't read at the same time.
	firstPause, lastPause = 250 * time.Millisecond, 15 * time.Second
	maxJitter             = 0.5
	// restartAfter is the time after which the pauses of an object begin at firstPause again for another waiter.
	restartAfter = 5 * time.Minute
	// keepPauses is how long the pauses of an object are kept that nothing reads.
	keepPauses = 2 * time.Minute
)

// reads reads objects of one kind by their names. It is safe for concurrent use. mu is locked before that of the Volumes.
type reads[T any] struct {
	get func(ctx context.Context, name types.NamespacedName) (T, error)
	of  *Volumes

	mu      sync.Mutex
	objects map[types.NamespacedName]*object[T]
}

func newReads[T any](v *Volumes, get func(ctx context.Context, name types.NamespacedName) (T, error)) *reads[T] {
	return &reads[T]{get: get, of: v, objects: map[types.NamespacedName]*object[T]{}}
}

func (r *reads[T]) now() time.Time { return r.of.cfg.Clock.Now() }

// object returns the object of the name. mu is held.
func (r *reads[T]) object(name types.NamespacedName) *object[T] {
	o := r.objects[name]
	if o == nil {
		o = &object[T]{news: make(chan struct{}), waiters: map[*waiter[T]]bool{}, pauses: newPauses()}
		r.objects[name] = o
	}
	return o
}

// read returns the result of a read that began at since or later. While reads must pause, it returns an earlier result for which usable
// returns false: the caller can wait for a later one. usable must not block.
func (r *reads[T]) read(ctx context.Context, name types.NamespacedName, since time.Time, usable func(T, error) bool) result[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.object(name)
	o.callers++
	defer func() { o.callers-- }()
	for {
		now := r.now()
		if !o.last.began.Before(since) && !o.cut {
			if !usable(o.last.object, o.last.err) {
				o.fail(now)
			}
			return o.last
		}
		pause := time.Duration(-1) // until there are news
		if !o.reading {
			pause = max(0, o.request(now).Sub(now))
			switch {
			case pause == 0 && !r.begin(name, o):
				return result[T]{err: context.Canceled}
			case pause == 0:
				pause = -1
			case o.next.After(o.soon()) && !o.cut && !usable(o.last.object, o.last.err):
				return o.last
			}
		}
		if err := r.sleep(ctx, o, pause); err != nil {
			return result[T]{err: err}
		}
	}
}

// sleep waits for news, or until the pause is over if it isn't negative. It returns the error of ctx. mu is held, but not while it waits.
func (r *reads[T]) sleep(ctx context.Context, o *object[T], pause time.Duration) error {
	news := o.news
	r.mu.Unlock()
	defer r.mu.Lock()
	var over <-chan time.Time
	if pause >= 0 {
		timer := r.of.cfg.Clock.NewTimer(pause)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-news:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// wait adds a waiter. If request is set, it has the object read as soon as that is allowed. Otherwise the last read wasn't enough.
func (r *reads[T]) wait(name types.NamespacedName, w *waiter[T], request bool) {
	r.mu.Lock()
	o, now := r.object(name), r.now()
	if !o.last.began.Before(w.since) && !o.cut && w.enough(o.last.object, o.last.err) {
		r.mu.Unlock()
		w.done()
		return
	}
	defer r.mu.Unlock()
	if request {
		o.request(now)
		o.failing = true
	}
	o.fail(now)
	if o.pauses.Duration > 10*firstPause && now.Sub(o.restarted) >= restartAfter {
		o.restarted, o.pauses = now, newPauses()
		if next := now.Add(o.pauses.Step()); next.Before(o.next) {
			o.next = next
		}
	}
	o.waiters[w] = true
	o.tell()
	if !o.served {
		o.served = r.of.run(func() { r.serve(name, o) })
	}
}

// leave removes a waiter. Its functions aren't called afterwards, but done may be running.
func (r *reads[T]) leave(name types.NamespacedName, w *waiter[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.objects[name]
	if o == nil || !o.waiters[w] {
		return
	}
	if delete(o.waiters, w); len(o.waiters) == 0 {
		o.tell()
	}
}

// serve reads the object while it has waiters.
func (r *reads[T]) serve(name types.NamespacedName, o *object[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { o.served = false }()
	for len(o.waiters) > 0 {
		pause := time.Duration(-1)
		if !o.reading {
			if pause = max(0, o.next.Sub(r.now())); pause == 0 {
				if !r.begin(name, o) {
					return
				}
				pause = -1
			}
		}
		if r.sleep(r.of.ctx, o, pause) != nil {
			return
		}
	}
}

// begin begins a read; false: after Close. mu is held.
func (r *reads[T]) begin(name types.NamespacedName, o *object[T]) bool {
	o.reading = r.of.run(func() { r.carryOut(name, o) })
	return o.reading
}

// carryOut makes the request, when there is a place for it. Objects get places in the order in which they are requested, and one
// object has one at most. A read that nothing waits for any more isn't made.
func (r *reads[T]) carryOut(name types.NamespacedName, o *object[T]) {
	var got result[T]
	select {
	case r.of.slots <- struct{}{}:
		if r.isWanted(o) {
			got.began = r.now()
			got.object, got.err = r.get(r.of.ctx, name)
		}
		<-r.of.slots
	case <-r.of.ctx.Done():
	}
	for _, done := range r.end(o, got) {
		done()
	}
}

func (r *reads[T]) isWanted(o *object[T]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return o.callers > 0 || len(o.waiters) > 0
}

// end is called after a read. It returns what must be called for the waiters for which it was enough.
func (r *reads[T]) end(o *object[T], got result[T]) (done []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer o.tell()
	o.reading = false
	if got.began.IsZero() {
		return nil
	}
	o.last, o.cut, o.failing = got, false, false
	failed, late := got.err != nil, false
	for w := range o.waiters {
		switch {
		case got.began.Before(w.since):
			late = true
		case w.enough(got.object, got.err):
			delete(o.waiters, w)
			done = append(done, w.done)
		default:
			failed = true
		}
	}
	now := r.now()
	if failed {
		o.fail(now)
	}
	if late {
		o.request(now)
		o.failing = true
	}
	return done
}

// release forgets the objects that nothing waits for. How soon they may be read again is kept for some time: pods that come and go
// must not have one read more often.
func (r *reads[T]) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for name, o := range r.objects {
		switch age := now.Sub(o.last.began); {
		case o.callers > 0 || len(o.waiters) > 0 || o.reading || o.served:
		case age > keepPauses:
			delete(r.objects, name)
		case age > firstPause:
			var none T
			o.last.object, o.cut = none, o.last.err == nil
		}
	}
}

// await reads the object until enough returns true, and then returns nil. When ctx ends before, it returns the error that
// enough gave last, or the error of ctx. Between two reads there is a pause.
func (r *reads[T]) await(ctx context.Context, name types.NamespacedName, enough func(T, error) (bool, error)) error {
	var last error
	done := make(chan struct{})
	w := &waiter[T]{since: r.now(), done: func() { close(done) }}
	w.enough = func(object T, err error) bool {
		is, why := enough(object, err)
		last = why
		return is
	}
	r.wait(name, w, true)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		r.leave(name, w) // last isn't written any more.
	case <-r.of.ctx.Done():
		r.leave(name, w)
		return r.of.ctx.Err()
	}
	if last == nil {
		last = ctx.Err()
	}
	return last
}

func newPauses() wait.Backoff {
	return wait.Backoff{Duration: firstPause, Factor: 1.5, Jitter: maxJitter, Steps: 100, Cap: lastPause}
}

// jittered returns a time from d to d and a half.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/2) //nolint:gosec // It keeps no secret.
}
