package service

import (
	"context"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/rotation"
)

// admissionQueue admits one unary call at a time: to encode a list, or to read manifests, takes a processor for tens of
// milliseconds, and the streams need it. Identities are admitted in rotation, one call of each. Owners don't wait.
type admissionQueue struct {
	mu   sync.Mutex
	busy bool
	// queue are the calls that wait.
	queue rotation.Queue
}

const (
	// longCall is how long a call may work without a pause after it. After a longer one the next call waits three
	// times as long as the work took, but at most maxPause. So long calls take a quarter of a processor.
	longCall = 5 * time.Millisecond
	maxPause = time.Second
)

// take waits until the call is admitted. end must be called once, when its work is done.
func (q *admissionQueue) take(ctx context.Context, caller access.Caller) (end func(), err error) {
	if isOwner(caller) {
		return func() {}, nil
	}
	if begin := q.enter(caller.Identity); begin != nil {
		select {
		case <-begin:
		case <-ctx.Done():
			q.leave(caller.Identity, begin)
			return nil, statusOf(ctx.Err())
		}
	}
	began := time.Now()
	return func() {
		if took := time.Since(began); took > longCall {
			time.AfterFunc(min(3*took, maxPause), q.next)
		} else {
			q.next()
		}
	}, nil
}

// enter returns nil if no other call is admitted, or else a channel that is closed when the call is.
func (q *admissionQueue) enter(identity string) (begin chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.busy {
		q.busy = true
		return nil
	}
	return q.queue.Add(identity)
}

// next admits the next call.
func (q *admissionQueue) next() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = q.queue.Serve()
}

// leave removes a call that doesn't wait any longer. If it has just been admitted, the next one is.
func (q *admissionQueue) leave(identity string, begin chan struct{}) {
	q.mu.Lock()
	removed := q.queue.Remove(identity, begin)
	q.mu.Unlock()
	if !removed {
		q.next()
	}
}
