package service

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/rotation"
)

const (
	// pauseAfter is how long streams run one after the other before their slot stays empty for as long as they ran,
	// but at most maxSlotPause. So waiting streams take at most half of each slot's time, however many they are.
	pauseAfter   = 200 * time.Microsecond
	maxSlotPause = 10 * time.Millisecond
)

// workLimiter bounds how many streams of callers other than root and podconfigd's own user run at once; the others
// are queued. Go's scheduler has no priorities: without the bound one revision makes hundreds of goroutines runnable,
// and those of the merge, the store and podexecd's stream wait behind them. Identities are served in rotation, and
// the streams of one identity in the order of their requests.
//
// A stream holds no slot while it waits for a revision or for the transport, so a consumer that doesn't read keeps
// none.
type workLimiter struct {
	slots int

	mu sync.Mutex
	// used counts the slots that streams hold, and those that are empty for a pause.
	used int
	// queue are the streams that wait for a slot.
	queue rotation.Queue
	// ran is how long streams have held slots since the last pause.
	ran time.Duration
}

// newWorkLimiter has one slot for every four processors, and at least one.
func newWorkLimiter() *workLimiter {
	return &workLimiter{slots: max(1, runtime.GOMAXPROCS(0)/4)}
}

// acquire waits for a slot. It fails only if ctx ends first.
func (l *workLimiter) acquire(ctx context.Context, identity string) error {
	l.mu.Lock()
	if l.used < l.slots {
		l.used++
		l.mu.Unlock()
		return nil
	}
	granted := l.queue.Add(identity)
	l.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	if !l.withdraw(identity, granted) {
		l.release(0)
	}
	return statusOf(ctx.Err())
}

// withdraw takes a stream out of the queue. It returns false if the stream has been granted a slot already.
func (l *workLimiter) withdraw(identity string, granted chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Remove(identity, granted)
}

// release returns a slot that was held for ran. If streams are queued and they ran long enough, the slot stays empty
// for a while.
func (l *workLimiter) release(ran time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ran += ran; l.queue.Len() == 0 {
		l.ran = 0
	}
	if l.ran < pauseAfter {
		l.grant()
		return
	}
	time.AfterFunc(min(l.ran, maxSlotPause), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.grant()
	})
	l.ran = 0
}

// grant hands a slot to the next stream, or frees it. The caller holds mu.
func (l *workLimiter) grant() {
	if !l.queue.Serve() {
		l.used--
	}
}

// workSlot is the slot of one stream. Only the stream's goroutine uses it. It is nil for a stream of root or
// podconfigd's own user, which runs without a slot.
type workSlot struct {
	limiter  *workLimiter
	ctx      context.Context //nolint:containedctx // the context of the stream that has the slot
	identity string
	held     bool
	since    time.Time
}

// slotFor returns the slot of a stream, not yet held.
func (l *workLimiter) slotFor(ctx context.Context, caller access.Caller) *workSlot {
	if isOwner(caller) {
		return nil
	}
	return &workSlot{limiter: l, ctx: ctx, identity: caller.Identity}
}

// hold waits until the stream holds the slot.
func (s *workSlot) hold() error {
	if s == nil || s.held {
		return nil
	}
	if err := s.limiter.acquire(s.ctx, s.identity); err != nil {
		return err
	}
	s.held, s.since = true, time.Now()
	return nil
}

// release returns the slot if the stream holds it.
func (s *workSlot) release() {
	if s == nil || !s.held {
		return
	}
	s.held = false
	s.limiter.release(time.Since(s.since))
}
