package runtime

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"
	"time"
)

// startLimiter limits how many pods start at once: thirty pods that two cores start concurrently take a tenth longer
// than the same thirty, four at a time. It limits only starts that progress: while none ends for startPatience, more
// are allowed. So starts that hang, or that wait for another process (a network plugin, say), delay other pods by no
// more than that.
type startLimiter struct {
	few int

	mu sync.Mutex
	// limit is how many slots there are. It is low while no pod waits.
	limit, taken int
	// waiting are the pods without a slot, in order. stuck fires when no slot was released for startPatience; it runs
	// while any pod waits.
	waiting []chan struct{}
	stuck   *time.Timer
}

// startPatience is longer than a start takes on a busy machine without faults.
const startPatience = 500 * time.Millisecond

// newStartLimiter returns two slots for each core, because a start waits for disks and the runtime at times.
func newStartLimiter() *startLimiter {
	few := 2 * goruntime.GOMAXPROCS(0)
	return &startLimiter{few: few, limit: few}
}

// acquire waits for a slot. Without an error the caller must release it. After the end of ctx there is no slot, also if
// one is free: a sandbox that is begun for a removed pod delays the pods that wait for that pod's end.
func (t *startLimiter) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if t.taken < t.limit && len(t.waiting) == 0 {
		t.taken++
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	t.waiting = append(t.waiting, turn)
	if len(t.waiting) == 1 {
		t.stuck = time.AfterFunc(startPatience, t.raise)
	}
	t.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, turn); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.taken--
	}
	t.handOut()
	return ctx.Err()
}

func (t *startLimiter) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	if t.stuck != nil {
		t.stuck.Reset(startPatience)
	}
	t.handOut()
}

// raise adds slots although none was released: it doubles the limit, and allows at least few further starts.
func (t *startLimiter) raise() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return
	}
	t.limit = max(2*t.limit, t.taken+t.few)
	t.stuck.Reset(startPatience)
	t.handOut()
}

// handOut hands out the free slots. The caller holds mu.
func (t *startLimiter) handOut() {
	for t.taken < t.limit && len(t.waiting) > 0 {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		t.taken++
	}
	if len(t.waiting) == 0 {
		t.limit = t.few
		if t.stuck != nil {
			t.stuck.Stop()
			t.stuck = nil
		}
	}
}
