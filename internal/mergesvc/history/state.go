package history

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// State is everything after one revision. It is immutable except for its ShownHorizon.
type State struct {
	Instance
	// Number is the last revision, or zero if there was none.
	Number uint64
	// Pods are sorted by namespace, name and UID.
	Pods []*revision.Pod
	// Sources are the sources that were configured then.
	Sources
	// SourcesSince is the revision since which exactly these sources are configured: the first one, or one that
	// configured others.
	SourcesSince uint64
	// Tombstones are the kept tombstones, in order of removal; all removals after Horizon are among them.
	Tombstones []Tombstone
	Horizon    uint64
	// Positions are those of the sources after the revision; nil for a State of an earlier one.
	Positions position.Positions

	shownHorizon *atomic.Uint64
	index        sync.Once
	byUID        map[types.UID]*revision.Pod
}

// ShownHorizon is the first revision after which it is known of each change whether an inspector could see it
// (Pod.ShownChanged). It rises as the history drops revisions: a result of ShownChanged is valid if the horizon, read
// after it, is low enough.
func (st *State) ShownHorizon() uint64 {
	if st.shownHorizon == nil {
		return 0
	}
	return st.shownHorizon.Load()
}

// Pod returns the pod with that UID, or nil.
func (st *State) Pod(uid types.UID) *revision.Pod {
	st.index.Do(func() {
		st.byUID = make(map[types.UID]*revision.Pod, len(st.Pods))
		for _, p := range st.Pods {
			st.byUID[p.UID()] = p
		}
	})
	return st.byUID[uid]
}

// keptStates is how many past States are kept to derive others from: a consumer that lags needs one after the other.
const keptStates = 8

// State returns the current State. All callers before the next append share it.
func (h *History) State() *State {
	h.mu.RLock()
	st := h.state
	current := h.isCurrent(st)
	h.mu.RUnlock()
	if current {
		return st
	}
	h.making.Lock()
	defer h.making.Unlock()
	h.mu.RLock()
	if st = h.state; h.isCurrent(st) {
		h.mu.RUnlock()
		return st
	}
	next := h.header(h.number)
	between, forward := h.between(st, next.Number)
	if touched(between) > len(h.pods)/4+16 {
		forward = false
	}
	if !forward {
		next.Pods = slices.Collect(maps.Values(h.pods))
	}
	h.mu.RUnlock()

	// Appends and reads don't wait for this.
	if forward {
		next.Pods = moved(st, next.Number, between)
	} else {
		slices.SortFunc(next.Pods, comparePods)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = next
	return next
}

// isCurrent reports whether st is the State of the last revision and the current instance. The caller holds mu.
func (h *History) isCurrent(st *State) bool {
	return st != nil && st.Number == h.number && st.Instance == h.instance
}

// StateAt returns the State after revision number, but with the current tombstones. It is false if the revisions
// since are no longer kept, or number was never reached.
func (h *History) StateAt(number uint64) (*State, bool) {
	st := h.State()
	if st.Number == number {
		return st, true
	}
	h.making.Lock()
	defer h.making.Unlock()
	base := st
	h.mu.RLock()
	for _, p := range h.past {
		if p.Instance == st.Instance && distance(p.Number, number) < distance(base.Number, number) {
			base = p
		}
	}
	next := h.header(number)
	between, ok := h.between(base, number)
	if !ok {
		base = st
		between, ok = h.between(base, number)
	}
	h.mu.RUnlock()
	if !ok {
		return nil, false
	}
	if base.Number == number {
		return base, true
	}
	next.Pods = moved(base, number, between)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.past = append(h.past, next)
	if len(h.past) > keptStates {
		h.past = slices.Clone(h.past[1:])
	}
	h.trimStates()
	return next, true
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// header returns a State without its pods. The caller holds mu.
func (h *History) header(number uint64) *State {
	e := h.eras.at(number)
	st := &State{
		Instance: h.instance, Number: number, Sources: e.sources, SourcesSince: e.from, Tombstones: h.tombs[:len(h.tombs):len(h.tombs)], Horizon: h.horizon,
		shownHorizon: h.shownHorizon,
	}
	if number == h.number {
		st.Positions = h.positions
	}
	return st
}

// between returns the revisions between a State and revision number, in either direction. It is false if they aren't
// kept. The caller holds mu.
func (h *History) between(st *State, number uint64) ([]*revision.Revision, bool) {
	if st == nil {
		return nil, false
	}
	low, high := min(st.Number, number), max(st.Number, number)
	first := h.number - uint64(len(h.recent)) + 1
	if high > h.number || low+1 < first {
		return nil, false
	}
	// A copy, because the history clears what it drops.
	return slices.Clone(h.recent[low+1-first : high+1-first]), true
}

// touched counts the pods that the revisions change.
func touched(revs []*revision.Revision) int {
	n := 0
	for _, rev := range revs {
		n += len(rev.Settled)
		for _, c := range rev.Changes {
			n += len(c.Pods)
		}
	}
	return n
}

// moved returns the pods of st as they are after revision number. The revisions between are applied, or undone if
// number is lower.
func moved(st *State, number uint64, between []*revision.Revision) []*revision.Pod {
	list := sorted(slices.Clone(st.Pods))
	if number >= st.Number {
		for _, rev := range between {
			list.apply(rev)
		}
	} else {
		for _, rev := range slices.Backward(between) {
			list.undo(rev, nil)
		}
	}
	return list
}

// sorted are pods in the order of namespace, name and UID.
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

// undo reverts a revision, but not its Settled pods: no op reports those to consumers either. It may leave out pods
// that aren't of interest: neither the version after the revision nor the one before. A nil function: all are.
func (s *sorted) undo(rev *revision.Revision, ofInterest func(*revision.Pod) bool) {
	for _, c := range slices.Backward(rev.Changes) {
		for i, p := range c.Pods {
			before := p
			if c.Was != nil {
				before = c.Was[i]
			}
			switch {
			case ofInterest != nil && !ofInterest(before) && !ofInterest(p):
			case c.Op == revision.REMOVE, c.Was != nil:
				s.put(before)
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
