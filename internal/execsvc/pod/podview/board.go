package podview

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// keptRemovals is how many removed pods are kept.
const keptRemovals = 1024

// Position is a reader's position. The zero value is before everything.
type Position struct {
	// Instance is the Board's, a random one of each process.
	Instance string
	// Number rises with each change.
	Number uint64
}

// Change is a changed or removed pod.
type Change struct {
	// Pod has only UID, Namespace, Name and Source if it is Removed.
	Pod     Pod
	Removed bool
	// At is the reader's position after this change.
	At Position
}

// Board holds the view of each pod. It is safe for concurrent use.
type Board struct {
	instance string

	mu sync.Mutex
	// number is that of the last change.
	number uint64
	// pods and removed are lists of *Change in order of At, each with its index. A pod is in one of them.
	pods, removed list.List
	byUID         map[types.UID]*list.Element
	tombs         map[identity]*list.Element
	// horizon is the number up to which removals were dropped.
	horizon uint64
	// more is closed, and replaced, by each change.
	more chan struct{}
}

// New returns an empty Board.
func New() *Board {
	return &Board{
		instance: uuid.NewString(), byUID: map[types.UID]*list.Element{}, tombs: map[identity]*list.Element{}, more: make(chan struct{}),
	}
}

// Set sets the pod's view. It has no effect if the view is the same.
func (b *Board) Set(p Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.byUID[p.UID]
	if before != nil && pod(before).identity() != p.identity() {
		b.bury(before)
		before = nil
	}
	if before != nil {
		merged, same := p.over(pod(before))
		if same {
			return
		}
		p = merged
		b.pods.Remove(before)
	}
	if tomb := b.tombs[p.identity()]; tomb != nil {
		b.removed.Remove(tomb)
		delete(b.tombs, p.identity())
	}
	b.byUID[p.UID] = b.pods.PushBack(&Change{Pod: p, At: b.next()})
}

// Remove removes the pod, if it is there.
func (b *Board) Remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byUID[uid]; e != nil {
		b.bury(e)
	}
}

// bury adds a tombstone for a pod, and drops the oldest one if there are too many.
func (b *Board) bury(e *list.Element) {
	p := pod(e).reference()
	b.pods.Remove(e)
	delete(b.byUID, p.UID)
	b.tombs[p.identity()] = b.removed.PushBack(&Change{Pod: p, Removed: true, At: b.next()})
	if b.removed.Len() > keptRemovals {
		oldest := b.removed.Front()
		b.horizon = change(oldest).At.Number
		b.removed.Remove(oldest)
		delete(b.tombs, pod(oldest).identity())
	}
}

// next returns the position of the change that is being made, and wakes the waiting readers.
func (b *Board) next() Position {
	b.number++
	close(b.more)
	b.more = make(chan struct{})
	return Position{b.instance, b.number}
}

// Get returns the pod, if it is there.
func (b *Board) Get(uid types.UID) (Pod, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byUID[uid]
	if e == nil {
		return Pod{}, false
	}
	return pod(e), true
}

// All returns the pods, the last changed at the end.
func (b *Board) All() []Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Pod, 0, b.pods.Len())
	for e := b.pods.Front(); e != nil; e = e.Next() {
		out = append(out, pod(e))
	}
	return out
}

// Since returns the changes after a position, in order, each pod once; the reader's position after them; and a channel
// that is closed when there is more. If the changes aren't known any more, or the position is of another Board, resumed
// is false and the changes are all present pods.
func (b *Board) Since(after Position) (changes []Change, now Position, more <-chan struct{}, resumed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now = Position{b.instance, b.number}
	resumed = after.Instance == b.instance && after.Number >= b.horizon && after.Number <= b.number
	if !resumed {
		return newer(&b.pods, 0), now, b.more, false
	}
	changes = append(newer(&b.pods, after.Number), newer(&b.removed, after.Number)...)
	slices.SortFunc(changes, func(x, y Change) int { return cmp.Compare(x.At.Number, y.At.Number) })
	return changes, now, b.more, true
}

// newer returns the changes after a number, in order.
func newer(l *list.List, after uint64) []Change {
	var out []Change
	for e := l.Back(); e != nil && change(e).At.Number > after; e = e.Prev() {
		out = append(out, *change(e))
	}
	slices.Reverse(out)
	return out
}

func change(e *list.Element) *Change { return e.Value.(*Change) } //nolint:forcetypeassert // The lists have no other elements.

func pod(e *list.Element) Pod { return change(e).Pod }
