package history

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
)

const (
	// laterDelay is how long after the other Readers the first group is woken.
	laterDelay = time.Millisecond
	// groupDelay is the time between two groups.
	groupDelay = 100 * time.Microsecond
	// laterGroups is the number of groups.
	laterGroups = 16
)

// later wakes the Readers that are woken later, group by group: hundreds that are woken at once would keep others from a
// processor for milliseconds. History.mu guards its fields.
type later struct {
	// due are the Readers of a few nodes to wake, by group.
	due [laterGroups][]*Reader
	// waking is set while a round runs or is scheduled.
	waking bool
	// round is the last revision at the start of the current round. all is set if the round also wakes the Readers of
	// all revisions.
	round uint64
	all   bool
	// awaited is set if a Reader of all revisions has started to wait since the start of the round. Readers write it,
	// too.
	awaited atomic.Bool
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

// wakeReaders wakes the Readers of a few nodes that a revision concerns. The caller holds mu.
func (h *History) wakeReaders(c nodeindex.Concern) {
	for r := range h.index.Readers(c) {
		if r.later {
			h.later.add(r)
		} else {
			r.Wake()
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
	h.later.round = h.number
	h.later.all = h.later.awaited.Swap(false)
	first := h.later.first(0)
	h.mu.Unlock()
	h.wakeGroup(first)
}

// wakeGroup wakes one group, and schedules the next one.
func (h *History) wakeGroup(group int) {
	if all := h.wakeDue(group); all {
		h.wide.wake(h.wide.later[group])
	}
}

// wakeDue wakes the Readers of a few nodes of one group, and schedules the next group. It reports whether the Readers of
// all revisions are to be woken, too. Revisions appended since the start of the round need another round, as some
// groups were woken before them.
func (h *History) wakeDue(group int) (all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.later
	if all = l.all; group < laterGroups {
		for _, r := range l.due[group] {
			r.due = false
			r.Wake()
		}
		l.due[group] = nil
		if next := l.first(group + 1); next < laterGroups {
			time.AfterFunc(groupDelay, func() { h.wakeGroup(next) })
			return all
		}
	}
	l.all, l.waking = false, false
	if l.round < h.number || l.first(0) < laterGroups {
		h.wakeLater()
	}
	return all && group < laterGroups
}
