package objects

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// entry is one object that pods refer to, or referred to within the ring.
type entry struct {
	source *source
	ref    Ref
	// values are in the order of their revisions; the last is the current one.
	values []version
	// places are the references to it, by node.
	places map[string]*place
	// live counts the current references; left is the revision that ended the last one.
	live int
	left uint64
}

// version is a value, and the first revision at which it holds.
type version struct {
	from uint64
	Value
	// charged is the revision whose size includes the value; zero if none does.
	charged uint64
}

// place is an object on one node.
type place struct{ records []record }

// record is one pod's reference, from one revision until before another. If to is zero, it still holds.
type record struct {
	who      *referrer
	from, to uint64
}

func (r record) holds(number uint64) bool { return r.from <= number && (r.to == 0 || r.to > number) }

// referrer is a pod as views match it. All references of the pod share it.
type referrer struct{ pod *revision.Pod }

// at returns the value after a revision that isn't older than the ring.
func (e *entry) at(number uint64) Value {
	for _, v := range slices.Backward(e.values) {
		if v.from <= number {
			return v.Value
		}
	}
	return Value{}
}

// state is the current state.
func (e *entry) state() State { return e.values[len(e.values)-1].State }

// visible reports whether a pod of the scope refers to the object after a revision.
func (e *entry) visible(number uint64, s Scope) bool {
	if s.Kinds != nil && !s.Kinds(e.ref.Kind) {
		return false
	}
	if s.Nodes == nil {
		for _, p := range e.places {
			if p.visible(number, s) {
				return true
			}
		}
		return false
	}
	for _, node := range s.Nodes {
		if p := e.places[node]; p != nil && p.visible(number, s) {
			return true
		}
	}
	return false
}

func (p *place) visible(number uint64, s Scope) bool {
	return slices.ContainsFunc(p.records, func(r record) bool { return r.holds(number) && s.Match(r.who.pod) })
}

// revisionOf is what one change of pods or objects did to the index.
type revisionOf struct {
	number uint64
	// pods is the revision of the pods' history that it belongs to.
	pods      uint64
	published time.Time
	// ready is set if a source became ready, or other sources were configured.
	ready bool
	// values are the objects whose value changed.
	values []*entry
	// places are those, and the objects whose references changed, by node. One may be listed twice.
	places map[string][]*entry
	// size is the memory that is kept only for this revision.
	size int
	// begun are the objects that pods refer to now, and to which no pod referred before.
	begun []*entry
	// dirty are the sources whose needed objects changed.
	dirty []*source
}

// open starts the next revision. The caller holds mu until it has committed it.
func (h *Hub) open() *revisionOf {
	return &revisionOf{number: h.number + 1, pods: h.podRevision, places: map[string][]*entry{}}
}

// refer adds a reference.
func (h *Hub) refer(r *revisionOf, ref Ref, node string, who *referrer) {
	s := h.source(ref.Source)
	e := s.entries[ref.ObjectKey]
	if e == nil {
		e = &entry{source: s, ref: ref, places: map[string]*place{}}
		e.values = []version{{from: r.number, Value: s.value(ref)}}
		s.entries[ref.ObjectKey] = e
	}
	// A pod that changes is removed and added within one revision.
	if e.live == 0 && e.left != r.number {
		r.begun = append(r.begun, e)
	}
	p := e.places[node]
	if p == nil {
		p = &place{}
		e.places[node] = p
		if h.nodes[node] == nil {
			h.nodes[node] = map[Ref]*entry{}
		}
		h.nodes[node][ref] = e
	}
	p.records = append(p.records, record{who: who, from: r.number})
	r.touch(node, e)
	if e.live++; e.live == 1 {
		r.want(s, ref.ObjectKey)
	}
}

// unrefer ends a reference.
func (h *Hub) unrefer(r *revisionOf, ref Ref, node string, who *referrer) {
	s := h.source(ref.Source)
	e := s.entries[ref.ObjectKey]
	records := e.places[node].records
	i := slices.IndexFunc(records, func(r record) bool { return r.who == who && r.to == 0 })
	records[i].to = r.number
	r.touch(node, e)
	if e.live--; e.live == 0 {
		e.left = r.number
		// From now on the value is kept for the ring only.
		h.charge(r, &e.values[len(e.values)-1])
		r.want(s, ref.ObjectKey)
	}
}

func (r *revisionOf) touch(node string, e *entry) {
	const overhead = 1 << 6
	r.places[node] = append(r.places[node], e)
	r.size += overhead
}

// want records that an object of a source is needed, or no longer needed.
func (r *revisionOf) want(s *source, key manifest.ObjectKey) {
	s.turn(key)
	if !slices.Contains(r.dirty, s) {
		r.dirty = append(r.dirty, s)
	}
}

// put gives an object another value. If no pod refers to the object, there is no revision, as no reader sees it.
// While a pod does, a value stays until another one is known: Unknown doesn't replace it.
func (h *Hub) put(r *revisionOf, e *entry, v Value) {
	last := &e.values[len(e.values)-1]
	if last.Value.Equal(v) || e.live > 0 && v.State == Unknown {
		return
	}
	if last.from == r.number || e.live == 0 && last.from >= e.left {
		// No reader has seen it.
		h.discharge(r, last)
		last.Value = v
	} else {
		if e.live > 0 {
			h.charge(r, last)
		}
		e.values = append(e.values, version{from: r.number, Value: v})
	}
	if e.live > 0 {
		r.values = append(r.values, e)
		for node := range e.places {
			r.touch(node, e)
		}
		h.follows(r, e)
	}
}

// charge counts the memory of a version to the last revision that needs it.
func (h *Hub) charge(r *revisionOf, v *version) {
	h.discharge(r, v)
	if v.State == Present {
		r.size += v.Object.size()
		v.charged = r.number
	}
}

// discharge reverts charge.
func (h *Hub) discharge(r *revisionOf, v *version) {
	switch {
	case v.charged <= h.floor:
	case v.charged == r.number:
		r.size -= v.Object.size()
	default:
		h.recent[v.charged-h.floor-1].size -= v.Object.size()
		h.bytes -= v.Object.size()
	}
	v.charged = 0
}

// commit publishes the revision, unless it is empty, and drops what is too old.
func (h *Hub) commit(r *revisionOf) {
	for _, s := range r.dirty {
		s.wake()
	}
	if len(r.values) == 0 && len(r.places) == 0 && !r.ready {
		return
	}
	r.published = h.cfg.Clock.Now()
	r.dirty = nil
	h.number = r.number
	h.recent = append(h.recent, r)
	concern := r.concern()
	h.index.Add(r.number, concern)
	h.bytes += r.size
	over := 0
	for len(h.recent)-over > h.cfg.Revisions || h.bytes > h.cfg.Bytes && over < len(h.recent)-1 {
		h.drop(h.recent[over])
		over++
	}
	if over > 0 {
		clear(h.recent[:over])
		h.recent = h.recent[over:]
	}
	close(h.appended)
	h.appended = make(chan struct{})
	for reader := range h.index.Readers(concern) {
		reader.wake()
	}
}

// drop removes from the index what only a reader before the revision could need.
func (h *Hub) drop(r *revisionOf) {
	h.floor, h.floorPods = r.number, r.pods
	h.index.Drop()
	h.bytes -= r.size
	for node, entries := range r.places {
		for _, e := range entries {
			if p := e.places[node]; p != nil {
				h.prune(e, node, p)
			}
		}
	}
	for _, e := range r.values {
		e.prune(h.floor)
	}
}

func (h *Hub) prune(e *entry, node string, p *place) {
	p.records = slices.DeleteFunc(p.records, func(r record) bool { return r.to != 0 && r.to <= h.floor })
	e.prune(h.floor)
	if len(p.records) > 0 {
		return
	}
	delete(e.places, node)
	if delete(h.nodes[node], e.ref); len(h.nodes[node]) == 0 {
		delete(h.nodes, node)
	}
	if len(e.places) == 0 {
		delete(e.source.entries, e.ref.ObjectKey)
	}
}

// prune drops the values that were replaced by the floor.
func (e *entry) prune(floor uint64) {
	old := 0
	for old+1 < len(e.values) && e.values[old+1].from <= floor {
		old++
	}
	e.values = slices.Delete(e.values, 0, old)
}
