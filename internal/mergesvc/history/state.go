package history

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// State is everything as it is after one revision. It never changes.
type State struct {
	Life
	// Number is the last revision; zero if there was none.
	Number uint64
	// Pods are sorted by namespace, name and UID.
	Pods []*revision.Pod
	Sources
	// Tombstones are the removed pods that are remembered, in order of removal; all removals after Horizon are among them.
	Tombstones []Tombstone
	Horizon    uint64

	index sync.Once
	byUID map[types.UID]*revision.Pod
}

// Pod is the pod with that UID, or nil.
func (st *State) Pod(uid types.UID) *revision.Pod {
	st.index.Do(func() {
		st.byUID = make(map[types.UID]*revision.Pod, len(st.Pods))
		for _, p := range st.Pods {
			st.byUID[p.UID()] = p
		}
	})
	return st.byUID[uid]
}

// State is the current state. It is shared by all who ask before the next append.
func (h *History) State() *State {
	h.mu.RLock()
	st := h.state
	current := st != nil && st.Number == h.number
	h.mu.RUnlock()
	if current {
		return st
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == nil || h.state.Number != h.number {
		h.state = h.snapshot(h.number, h.currentPods())
	}
	return h.state
}

// StateAt is the state as it was after revision number, but for the tombstones, which are the current ones. It is false if the
// revisions since are no longer kept, or number was never reached.
func (h *History) StateAt(number uint64) (*State, bool) {
	st := h.State()
	if st.Number == number {
		return st, true
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	// The state may have got older meanwhile: it is taken forward or back, whichever it needs.
	pods, ok := h.moved(st, number)
	if !ok {
		return nil, false
	}
	return h.snapshot(number, pods), true
}

func (h *History) snapshot(number uint64, pods []*revision.Pod) *State {
	return &State{
		Life: h.life, Number: number, Sources: h.sources, Pods: pods,
		Tombstones: h.tombs[:len(h.tombs):len(h.tombs)], Horizon: h.horizon,
	}
}

// currentPods are the pods in order: the last state's, brought up to date, if that is less work than to sort them all.
func (h *History) currentPods() []*revision.Pod {
	if h.state != nil {
		if pods, ok := h.moved(h.state, h.number); ok {
			return pods
		}
	}
	pods := make([]*revision.Pod, 0, len(h.pods))
	for _, p := range h.pods {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, comparePods)
	return pods
}

// moved are the state's pods as they are after revision number. It is false if the revisions between aren't kept, or are so
// many that it doesn't pay.
func (h *History) moved(st *State, number uint64) ([]*revision.Pod, bool) {
	low, high := min(st.Number, number), max(st.Number, number)
	first := h.number - uint64(len(h.recent)) + 1
	if high > h.number || low+1 < first {
		return nil, false
	}
	between := h.recent[low+1-first : high+1-first]
	touched := 0
	for _, rev := range between {
		touched += len(rev.Settled)
		for _, c := range rev.Changes {
			touched += len(c.Pods)
		}
	}
	if number == h.number && touched > len(h.pods)/4+16 {
		return nil, false
	}
	list := sorted(slices.Clone(st.Pods))
	if number >= st.Number {
		for _, rev := range between {
			list.apply(rev)
		}
	} else {
		for _, rev := range slices.Backward(between) {
			list.undo(rev)
		}
	}
	return list, true
}

// sorted are pods by namespace, name and UID.
type sorted []*revision.Pod

func (s *sorted) apply(rev *revision.Revision) {
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				s.remove(p)
			} else {
				s.put(p)
			}
		}
	}
	for _, p := range rev.Settled {
		s.put(p)
	}
}

// undo takes a revision back. What it settled stays so: consumers aren't told of that by ops either.
func (s *sorted) undo(rev *revision.Revision) {
	for _, c := range slices.Backward(rev.Changes) {
		for i, p := range c.Pods {
			switch {
			case c.Op == revision.REMOVE:
				s.put(p)
			case c.Was != nil:
				s.put(c.Was[i])
			default:
				s.remove(p)
			}
		}
	}
}

func (s *sorted) put(p *revision.Pod) {
	i, found := slices.BinarySearchFunc(*s, p, comparePods)
	if found {
		(*s)[i] = p
		return
	}
	*s = slices.Insert(*s, i, p)
}

func (s *sorted) remove(p *revision.Pod) {
	if i, found := slices.BinarySearchFunc(*s, p, comparePods); found {
		*s = slices.Delete(*s, i, i+1)
	}
}

func comparePods(a, b *revision.Pod) int {
	if c := strings.Compare(a.Object.Namespace, b.Object.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(a.Object.Name, b.Object.Name); c != 0 {
		return c
	}
	return strings.Compare(string(a.Object.UID), string(b.Object.UID))
}
