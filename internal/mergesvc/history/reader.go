package history

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// ReaderConfig is the configuration of a Reader.
type ReaderConfig struct {
	// Nodes are the nodes whose pods the Reader reads. Nil: all. If they are more than nodeindex.MaxNodes, it reads all,
	// too.
	Nodes []string
	// Later is set if the Reader is woken after the others, a millisecond or two later.
	Later bool
}

// Reader reads the history for one stream. One of a few nodes is woken for the revisions that concern its nodes, and
// costs nothing for others. Its position isn't kept here. It is safe for concurrent use, but one goroutine at a time can
// wait for it.
type Reader struct {
	h     *History
	nodes []string
	later bool
	group uint64
	// woken gets a value when there may be a revision. It has room for one.
	woken chan struct{}
	// due is set if it is to be woken by a round of later. History.mu guards it.
	due bool
}

// NewReader returns a Reader. Close ends it.
func (h *History) NewReader(cfg ReaderConfig) *Reader {
	r := &Reader{h: h, later: cfg.Later, woken: make(chan struct{}, 1)}
	if cfg.Nodes != nil && len(cfg.Nodes) <= nodeindex.MaxNodes {
		r.nodes = cfg.Nodes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers++
	r.group = h.readers % laterGroups
	if r.all() {
		h.wide.join(r)
	} else {
		h.index.Join(r, r.nodes)
	}
	return r
}

// Close ends the Reader. It isn't woken any more.
func (r *Reader) Close() {
	r.Wait(false)
	if r.all() {
		r.h.wide.leave(r)
		return
	}
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	r.h.index.Leave(r, r.nodes)
	r.h.later.remove(r)
}

func (r *Reader) all() bool { return r.nodes == nil }

// Wake wakes the Reader, as a revision does.
func (r *Reader) Wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Next returns the first revision after number that concerns the Reader's nodes, or nil if there is none yet. at is the
// last revision before it, or the last one: between number and at nothing concerns the nodes. more gets a value when
// there may be another revision. kept is false if a revision that concerns them may no longer be kept, or number was
// never reached.
func (r *Reader) Next(number uint64) (rev *revision.Revision, at uint64, kept bool, more <-chan struct{}) {
	r.h.mu.RLock()
	defer r.h.mu.RUnlock()
	if !r.all() {
		rev, at, kept = r.next(number)
		return rev, at, kept, r.woken
	}
	if rev, kept = r.h.next(number); rev == nil && r.later {
		r.h.later.awaited.Store(true)
	}
	return rev, number, kept, r.woken
}

// next is Next for a Reader of a few nodes. The caller holds mu.
func (r *Reader) next(number uint64) (rev *revision.Revision, at uint64, kept bool) {
	next, kept := r.h.index.Next(number, r.nodes)
	switch {
	case !kept, number > r.h.number:
		return nil, number, false
	case next == 0:
		return nil, r.h.number, true
	}
	return r.h.recent[next-r.h.floor()-1], next - 1, true
}

// Behind returns how many revisions follow number, from the first one on that concerns the Reader, and since when that
// one, or the oldest kept one, has been published. Zero: there is none.
func (r *Reader) Behind(number uint64) (revisions uint64, since time.Time) {
	r.h.mu.RLock()
	defer r.h.mu.RUnlock()
	if !r.all() {
		rev, at, kept := r.next(number)
		if rev == nil && kept {
			return 0, time.Time{}
		}
		number = at
	}
	if number >= r.h.number {
		return 0, time.Time{}
	}
	return r.h.number - number, r.h.waitingSince(number)
}

// State returns the current State. For a Reader of a few nodes, its Pods are those of the nodes, and perhaps others.
func (r *Reader) State() *State {
	if r.all() {
		return r.h.State()
	}
	r.h.mu.RLock()
	st := r.h.header(r.h.number)
	st.Pods = r.pods()
	r.h.mu.RUnlock()
	slices.SortFunc(st.Pods, comparePods)
	return st
}

// StateSince is State for a consumer that holds what the nodes had after revision number. Pods has all of these that
// still exist, on whatever node.
func (r *Reader) StateSince(number uint64) *State {
	if number < r.h.start {
		// Which pods changed their nodes before isn't known.
		return r.h.State()
	}
	return r.State()
}

// StateAt returns the State after revision number, with the current tombstones. For a Reader of a few nodes, its Pods
// are those of the nodes, and perhaps others. It is false if the revisions since are no longer kept, or number was
// never reached.
func (r *Reader) StateAt(number uint64) (*State, bool) {
	if r.all() {
		return r.h.StateAt(number)
	}
	r.h.mu.RLock()
	st := r.h.header(number)
	st.Pods = r.pods()
	revs, ok := r.since(number)
	r.h.mu.RUnlock()
	if !ok {
		return nil, false
	}
	list := sorted(st.Pods)
	slices.SortFunc(list, comparePods)
	for _, rev := range slices.Backward(revs) {
		list.undo(rev, func(p *revision.Pod) bool { return slices.Contains(r.nodes, p.Object.Spec.NodeName) })
	}
	st.Pods = list
	return st, true
}

// since returns the revisions after number that concern the nodes. The caller holds mu.
func (r *Reader) since(number uint64) (revs []*revision.Revision, ok bool) {
	if number > r.h.number {
		return nil, false
	}
	for at := number; ; {
		rev, _, kept := r.next(at)
		if !kept {
			return nil, false
		}
		if rev == nil {
			return revs, true
		}
		revs, at = append(revs, rev), rev.Number
	}
}

// pods returns the pods of the nodes, and those that changed their node. The caller holds mu.
func (r *Reader) pods() []*revision.Pod {
	var out []*revision.Pod
	for _, node := range r.nodes {
		for _, p := range r.h.byNode[node] {
			out = append(out, p)
		}
	}
	for uid := range r.h.moved {
		if p := r.h.pods[uid]; !slices.Contains(r.nodes, p.Object.Spec.NodeName) {
			out = append(out, p)
		}
	}
	return out
}

// put makes p the current version of its pod. It adds the pod's node, and its former one, to nodes. The caller holds mu.
func (h *History) put(nodes []string, p *revision.Pod) []string {
	uid, node := p.UID(), p.Object.Spec.NodeName
	if was, ok := h.nodeOf[uid]; ok && was != node {
		h.takeFrom(was, uid)
		h.moved[uid] = true
		nodes = append(nodes, was)
	}
	h.pods[uid], h.nodeOf[uid] = p, node
	if h.byNode[node] == nil {
		h.byNode[node] = map[types.UID]*revision.Pod{}
	}
	h.byNode[node][uid] = p
	return append(nodes, node)
}

// remove removes a pod. It adds the pod's node to nodes. The caller holds mu.
func (h *History) remove(nodes []string, uid types.UID) []string {
	node, ok := h.nodeOf[uid]
	if !ok {
		return nodes
	}
	h.takeFrom(node, uid)
	delete(h.pods, uid)
	delete(h.nodeOf, uid)
	delete(h.moved, uid)
	return append(nodes, node)
}

func (h *History) takeFrom(node string, uid types.UID) {
	if delete(h.byNode[node], uid); len(h.byNode[node]) == 0 {
		delete(h.byNode, node)
	}
}

// concernOf is what a revision concerns: the nodes of its pods, now and before, or every Reader if it is about sources.
func concernOf(rev *revision.Revision, nodes []string) nodeindex.Concern {
	slices.Sort(nodes)
	return nodeindex.Concern{
		Nodes: slices.Clip(slices.Compact(nodes)),
		Every: rev.BecameReady || rev.Sources != nil || slices.ContainsFunc(rev.Changes, func(c revision.Change) bool { return len(c.Pods) == 0 }),
	}
}
