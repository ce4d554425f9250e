package history

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
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

// later wakes the readers of NextLater, and the Readers of a few nodes that are woken later, group by group.
// History.mu guards its fields.
type later struct {
	// groups have the channel that each group waits for.
	groups [laterGroups]chan struct{}
	// due are the Readers of a few nodes to wake, by group.
	due [laterGroups][]*Reader
	// waking is set while a round runs or is scheduled.
	waking bool
	// round is the last revision at the start of the current round. all is set if the round wakes all groups, and not
	// only Readers that are due.
	round uint64
	all   bool
	// awaited is set if a reader of NextLater has started to wait since the start of the round. Readers write it, too.
	awaited atomic.Bool
}

func newLater() *later {
	l := &later{}
	for i := range l.groups {
		l.groups[i] = make(chan struct{})
	}
	return l
}

// add makes a Reader due. The caller holds mu.
func (l *later) add(r *Reader) {
	if !r.due {
		r.due = true
		l.due[r.group] = append(l.due[r.group], r)
	}
}

// remove reverts add.
func (l *later) remove(r *Reader) {
	if r.due {
		r.due = false
		l.due[r.group] = slices.DeleteFunc(l.due[r.group], func(other *Reader) bool { return other == r })
	}
}

// first returns the first group from the given one on that the round has to wake; laterGroups if there is none.
func (l *later) first(group int) int {
	for ; group < laterGroups && !l.all && len(l.due[group]) == 0; group++ {
	}
	return group
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

// wakeReaders wakes the Readers of a few nodes that a revision concerns. The caller holds mu.
func (h *History) wakeReaders(c nodeindex.Concern) {
	for r := range h.index.Readers(c) {
		if r.later {
			h.later.add(r)
		} else {
			r.wake()
		}
	}
	h.wakeLater()
}

// wakeLater starts a round if a reader waits. If a round runs, another one follows it. The caller holds mu.
func (h *History) wakeLater() {
	if l := h.later; !l.waking && (l.awaited.Load() || l.first(0) < laterGroups) {
		l.waking = true
		time.AfterFunc(laterDelay, h.startRound)
	}
}

// startRound starts a round.
func (h *History) startRound() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.later.round = h.number
	h.later.all = h.later.awaited.Swap(false)
	h.wakeGroup(h.later.first(0))
}

// wakeGroup wakes one group, and schedules the next one. Revisions appended since the start of the round need another
// round, as some groups were woken before them. The caller holds mu.
func (h *History) wakeGroup(group int) {
	l := h.later
	if group < laterGroups {
		if l.all {
			close(l.groups[group])
			l.groups[group] = make(chan struct{})
		}
		for _, r := range l.due[group] {
			r.due = false
			r.wake()
		}
		l.due[group] = nil
		if next := l.first(group + 1); next < laterGroups {
			time.AfterFunc(groupDelay, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.wakeGroup(next)
			})
			return
		}
	}
	l.all, l.waking = false, false
	if l.round < h.number || l.first(0) < laterGroups {
		h.wakeLater()
	}
}
