package objects

import (
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// source is what one source has defined or reported.
type source struct {
	name string
	// entries are the objects that its pods refer to, or referred to within the ring.
	entries map[manifest.ObjectKey]*entry

	// For a source whose sets define objects: what its origins define, and which of it is used.
	origins []*origin
	byName  map[string]*origin
	defined map[manifest.ObjectKey]*manifest.Object
	// complete is set if an undefined object doesn't exist: the source was read, and the objects of each origin are
	// known, or were.
	complete bool
	// unused are the findings for objects that an earlier origin or document defines too, and for those over the
	// limits.
	unused []merge.Finding
	// maxObjects and maxBytes bound the number and total size of the used objects.
	maxObjects, maxBytes int

	// For a source that Follow reads.
	asked bool
	// reported are the values of the objects that it follows.
	reported map[manifest.ObjectKey]Value
	// phases has the phase of each object; nil while nothing is followed. turned are the objects whose first
	// reference came, or whose last one went, since the last offer. moving are those whose phase ends when the source
	// takes the offer.
	phases         map[manifest.ObjectKey]phase
	turned, moving map[manifest.ObjectKey]bool
	// changed gets a value when the needed objects may have changed.
	changed chan struct{}
}

// origin is one origin's objects: those of its last reading, and those kept from before while it is held.
type origin struct {
	given  *manifest.Origin
	offers []offer
	// size is their total size.
	size int
	// known is set once all objects of the origin were known.
	known bool
}

// offer is an object that may be used, with its size in bytes.
type offer struct {
	*manifest.Object
	size int
}

func newSource(name string, maxObjects, maxBytes int) *source {
	return &source{
		name: name, asked: asks(name), entries: map[manifest.ObjectKey]*entry{}, reported: map[manifest.ObjectKey]Value{},
		changed: make(chan struct{}, 1), maxObjects: maxObjects, maxBytes: maxBytes,
	}
}

// turn records that the first reference to an object came, or that the last one went.
func (s *source) turn(key manifest.ObjectKey) {
	if s.turned != nil {
		s.turned[key] = true
	}
}

// wants reports whether pods refer to an object now.
func (s *source) wants(key manifest.ObjectKey) bool {
	e := s.entries[key]
	return e != nil && e.live > 0
}

// wake notifies the feeder that the needed objects may have changed.
func (s *source) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// follows reports whether the source's reports of an object are used.
func (s *source) follows(key manifest.ObjectKey) bool {
	return s.phases[key] == offered || s.phases[key] == given
}

// value returns the current value of an object.
func (s *source) value(ref Ref) Value {
	if s.asked {
		return s.reported[ref.ObjectKey]
	}
	if o := s.defined[ref.ObjectKey]; o != nil {
		return Value{State: Present, Object: newObject(ref, o)}
	}
	if s.complete {
		return Value{State: Missing}
	}
	return Value{}
}

// replace replaces the origins with those of a set, and reports whether a value may have changed. An origin with the
// same pointer as before costs one comparison.
func (s *source) replace(given []*manifest.Origin) (changed bool) {
	if changed, ok := s.replaceInPlace(given); ok {
		return changed
	}
	next := make([]*origin, len(given))
	byName := make(map[string]*origin, len(given))
	complete := true
	// The order of origins decides which objects are used.
	changed = len(given) != len(s.origins)
	for i, g := range given {
		old := s.byName[g.Name]
		if old != nil && old.given == g {
			next[i] = old
		} else {
			next[i] = newOrigin(g, old)
			changed = changed || len(next[i].offers) > 0 || old != nil && len(old.offers) > 0
		}
		changed = changed || s.origins[i].given.Name != g.Name
		complete = complete && next[i].known
		byName[g.Name] = next[i]
	}
	s.origins, s.byName = next, byName
	return s.replaced(changed, complete)
}

// replaceInPlace is replace for origins with the same names in the same order, the usual case unless a file was added
// or removed. It is false for others.
func (s *source) replaceInPlace(given []*manifest.Origin) (changed, ok bool) {
	if len(given) != len(s.origins) {
		return false, false
	}
	for i, g := range given {
		if old := s.origins[i].given; old != g && old.Name != g.Name {
			return false, false
		}
	}
	complete := true
	for i, g := range given {
		if old := s.origins[i]; old.given != g {
			o := newOrigin(g, old)
			changed = changed || len(o.offers) > 0 || len(old.offers) > 0
			s.origins[i], s.byName[g.Name] = o, o
		}
		complete = complete && s.origins[i].known
	}
	return s.replaced(changed, complete), true
}

// replaced ends a replace.
func (s *source) replaced(changed, complete bool) bool {
	changed = changed || complete != s.complete
	s.complete = complete
	if changed {
		s.define()
	}
	return changed
}

// newOrigin returns what an origin defines now: the objects it was given and, while it is held, its previous objects
// that it doesn't define again.
func newOrigin(given *manifest.Origin, old *origin) *origin {
	o := &origin{given: given, known: !given.ObjectsUnknown || old != nil && old.known}
	for _, object := range given.Objects {
		o.add(offer{object, sizeOf(object)})
	}
	if !given.Held || old == nil || len(old.offers) == 0 {
		return o
	}
	fresh := map[manifest.ObjectKey]bool{}
	for _, object := range o.offers {
		fresh[object.Key()] = true
	}
	for _, object := range old.offers {
		if !fresh[object.Key()] {
			o.add(object)
		}
	}
	return o
}

func (o *origin) add(object offer) {
	o.offers = append(o.offers, object)
	o.size += object.size
}
