package objects

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Scope selects the objects of a reader: those that matching pods refer to.
type Scope struct {
	// Nodes are the nodes whose pods may match. Nil: any.
	Nodes []string
	// Match reports whether a pod of one of the nodes matches. It is called under the Hub's lock and must not call
	// the Hub.
	Match func(*revision.Pod) bool
	// Kinds reports whether objects of the kind are selected. Nil: all kinds are.
	Kinds func(manifest.ObjectKind) bool
}

// Op is a change of an object that a reader sees, numbered as podconfig.v1.ObjectOperation.
type Op int

// The ops of a change.
const (
	Put Op = iota + 1
	Remove
	Absent
)

// Change is one op on one object.
type Change struct {
	Op  Op
	Ref Ref
	// Object is set for Put.
	Object *Object
	// Unsent is set for a Remove of an object whose value wasn't known: it needn't be sent to a reader, unless the
	// reader has the object from before.
	Unsent bool
}

// Delta is what one revision changed for a reader.
type Delta struct {
	// Number is the revision. Without changes: the last revision up to which there was nothing for the reader.
	Number uint64
	// Pods is the revision of the pods' history that it belongs to.
	Pods      uint64
	Published time.Time
	// Changes are in the order of their ops (Remove, Put, Absent) and references.
	Changes []Change
	// Ready is set if a source became ready with it, or other sources were configured.
	Ready bool
}

// podsAt returns the revision of the pods' history that belongs to a revision in the ring.
func (h *Hub) podsAt(number uint64) uint64 {
	if number == h.floor {
		return h.floorPods
	}
	return h.recent[number-h.floor-1].pods
}

// changes returns what a revision changed for the scope.
func changes(r *revisionOf, s Scope) []Change {
	var touched []*entry
	if s.Nodes == nil {
		for _, entries := range r.places {
			touched = append(touched, entries...)
		}
	} else {
		for _, node := range s.Nodes {
			touched = append(touched, r.places[node]...)
		}
	}
	slices.SortFunc(touched, func(a, b *entry) int { return a.ref.Compare(b.ref) })
	var out []Change
	for _, e := range slices.Compact(touched) {
		if c, ok := changeOf(e, r.number, s); ok {
			out = append(out, c)
		}
	}
	return InOrder(out)
}

// InOrder sorts changes by their ops.
func InOrder(changes []Change) []Change {
	slices.SortStableFunc(changes, func(a, b Change) int { return a.Op.order() - b.Op.order() })
	return changes
}

// order is the op's rank within a revision.
func (o Op) order() int { return [...]int{Remove: 0, Put: 1, Absent: 2}[o] }

// changeOf returns what a revision changed of one object, and false if it changed nothing for the scope.
func changeOf(e *entry, number uint64, s Scope) (Change, bool) {
	sees, saw := e.visible(number, s), e.visible(number-1, s)
	is, was := e.at(number), e.at(number-1)
	switch {
	case !sees && saw:
		return Change{Op: Remove, Ref: e.ref, Unsent: was.State == Unknown}, true
	case !sees, is.State == Unknown, saw && is.Equal(was):
		return Change{}, false
	default:
		return asChange(e.ref, is), true
	}
}

// asChange returns the change that sends a value.
func asChange(ref Ref, v Value) Change {
	if v.State == Missing {
		return Change{Op: Absent, Ref: ref}
	}
	return Change{Op: Put, Ref: ref, Object: v.Object}
}

// Snapshot is what a scope sees after one revision.
type Snapshot struct {
	Number uint64
	// Pods is the revision of the pods' history that it belongs to.
	Pods uint64
	// Items are the objects that pods of the scope refer to, in the order of their references.
	Items []Item
}

// Open returns the snapshot with the unknown objects only, so that it keeps no others in memory.
func (s Snapshot) Open() Snapshot {
	var open []Item
	for _, i := range s.Items {
		if i.State == Unknown {
			open = append(open, i)
		}
	}
	s.Items = open
	return s
}

// Item is an object and its value.
type Item struct {
	Ref Ref
	Value
}

// Has reports whether a consumer that holds the digest has the item. An empty digest stands for a missing object.
func (i Item) Has(digest string) bool {
	return i.State == Missing && digest == "" || i.State == Present && i.Object.Digest() == digest
}

// Change returns the op that sends the item. It must not be Unknown.
func (i Item) Change() Change { return asChange(i.Ref, i.Value) }

// Now returns the current value of an object; Unknown if no pod of the scope refers to it.
func (h *Hub) Now(ref Ref, s Scope) Value {
	h.mu.RLock()
	defer h.mu.RUnlock()
	src := h.sources[ref.Source]
	if src == nil {
		return Value{}
	}
	if e := src.entries[ref.ObjectKey]; e != nil && e.visible(h.number, s) {
		return e.at(h.number)
	}
	return Value{}
}

// Current returns what the scope sees now, with all pods of the history.
func (h *Hub) Current(s Scope) Snapshot {
	h.Advance()
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.snapshot(h.number, s)
}

// At returns what the scope saw after a revision. It is false if that is no longer kept, or number was never reached.
func (h *Hub) At(number uint64, s Scope) (Snapshot, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if number < h.floor || number > h.number {
		return Snapshot{}, false
	}
	return h.snapshot(number, s), true
}

func (h *Hub) snapshot(number uint64, s Scope) Snapshot {
	out := Snapshot{Number: number, Pods: h.podsAt(number)}
	seen := map[*entry]bool{}
	see := func(entries map[Ref]*entry) {
		for ref, e := range entries {
			if !seen[e] && e.visible(number, s) {
				seen[e] = true
				out.Items = append(out.Items, Item{Ref: ref, Value: e.at(number)})
			}
		}
	}
	if s.Nodes == nil {
		for _, entries := range h.nodes {
			see(entries)
		}
	} else {
		for _, node := range s.Nodes {
			see(h.nodes[node])
		}
	}
	slices.SortFunc(out.Items, func(a, b Item) int { return a.Ref.Compare(b.Ref) })
	return out
}
