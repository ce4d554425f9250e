package history

import (
	"sync/atomic"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

const (
	// laterDelay is how long after the readers of Next the first group is woken.
	laterDelay = time.Millisecond
	// groupDelay is the time between two groups.
	groupDelay = 100 * time.Microsecond
	// laterGroups is the number of groups.
	laterGroups = 16
)

// later wakes the readers of NextLater, group by group. History.mu guards its fields.
type later struct {
	// groups have the channel that each group waits for.
	groups [laterGroups]chan struct{}
	// waking is set while a round runs or is scheduled.
	waking bool
	// round is the last revision at the start of the current round.
	round uint64
	// awaited is set if a reader has started to wait since the start of the round. Readers write it, too.
	awaited atomic.Bool
}

func newLater() *later {
	l := &later{}
	for i := range l.groups {
		l.groups[i] = make(chan struct{})
	}
	return l
}

// NextLater is Next for readers that are woken after the readers of Next: hundreds that are woken at once would keep
// those from a processor for milliseconds. The readers of one group are woken together, and the groups one after the
// other. Any number names a group.
func (h *History) NextLater(number, group uint64) (rev *revision.Revision, kept bool, more <-chan struct{}) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if rev, kept = h.next(number); rev == nil {
		h.later.awaited.Store(true)
	}
	return rev, kept, h.later.groups[group%laterGroups]
}

// wakeLater starts a round if a reader waits. If a round runs, another one follows it. The caller holds mu.
func (h *History) wakeLater() {
	if !h.later.waking && h.later.awaited.Load() {
		h.later.waking = true
		time.AfterFunc(laterDelay, func() { h.wake(0) })
	}
}

// wake wakes one group, and schedules the next one. Revisions appended since the start of the round need another
// round, as some groups were woken before them.
func (h *History) wake(group int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if group == 0 {
		h.later.round = h.number
		h.later.awaited.Store(false)
	}
	close(h.later.groups[group])
	h.later.groups[group] = make(chan struct{})
	switch {
	case group+1 < laterGroups:
		time.AfterFunc(groupDelay, func() { h.wake(group + 1) })
	case h.later.round < h.number:
		time.AfterFunc(laterDelay, func() { h.wake(0) })
	default:
		h.later.waking = false
	}
}
