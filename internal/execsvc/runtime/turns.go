package runtime

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"
	"time"
)

// turns has pods started a few at a time: thirty that two cores start side by side take a tenth longer than the same thirty four by four.
// It bounds only what gets on: while no turn ends for turnPatience, more are given. So starts that hang, or that wait for somebody else (a
// network plugin, say), hold up nobody for longer than that.
type turns struct {
	few int

	mu sync.Mutex
	// limit is how many may have a turn; it is few while nobody waits.
	limit, taken int
	// waiting are those without a turn, the first first. stuck fires when no turn has ended for turnPatience; it runs while any wait.
	waiting []chan struct{}
	stuck   *time.Timer
}

// turnPatience is longer than a start takes on a busy machine if nothing is wrong.
const turnPatience = 500 * time.Millisecond

// newTurns gives two for each core: one has to wait for disks and for the runtime now and then.
func newTurns() *turns {
	few := 2 * goruntime.GOMAXPROCS(0)
	return &turns{few: few, limit: few}
}

// take waits for a turn. Without an error it must be given back with give.
func (t *turns) take(ctx context.Context) error {
	t.mu.Lock()
	if t.taken < t.limit && len(t.waiting) == 0 {
		t.taken++
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	t.waiting = append(t.waiting, turn)
	if len(t.waiting) == 1 {
		t.stuck = time.AfterFunc(turnPatience, t.more)
	}
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, turn); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.taken--
	}
	t.next()
	return ctx.Err()
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	if t.stuck != nil {
		t.stuck.Reset(turnPatience)
	}
	t.next()
}

// more gives turns though none has ended, to as many again and to no less than a few.
func (t *turns) more() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return
	}
	t.limit = max(2*t.limit, t.taken+t.few)
	t.stuck.Reset(turnPatience)
	t.next()
}

// next gives the turns that there are. Its caller holds mu.
func (t *turns) next() {
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
