package objects

import (
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// source is what one source has, or has told.
type source struct {
	name string
	// entries are the objects that its pods refer to, or did within the ring.
	entries map[manifest.ObjectKey]*entry

	// Of a source whose sets have its objects: what its origins have, and which of it counts.
	origins []*origin
	byName  map[string]*origin
	defined map[manifest.ObjectKey]*manifest.Object
	// complete is set if what isn't defined doesn't exist: the source was read, and of each origin its objects are known, or were.
	complete bool
	// unused tells of the objects that another origin or document defines before, and of those that are too many.
	unused []merge.Finding
	// maxObjects and maxBytes are how many objects count, and of which size together.
	maxObjects, maxBytes int

	// Of a source that is asked.
	asked bool
	// told is what it has said of the objects that it was given to follow.
	told map[manifest.ObjectKey]Value
	// phases are how far it is with each object; nil while nobody follows it. Turned are the objects that pods have begun or ceased to
	// refer to since it was last offered any, and moving those whose phase ends when it takes the offer.
	phases         map[manifest.ObjectKey]phase
	turned, moving map[manifest.ObjectKey]bool
	// changed gets a value when other objects may be wanted.
	changed chan struct{}
}

// origin is one origin's objects: those that it was last given, and those kept from before while it is held.
type origin struct {
	given  *manifest.Origin
	offers []offer
	// size is that of all of them.
	size int
	// known is set once the origin's objects were all known.
	known bool
}

// offer is an object that may count, with its size in bytes.
type offer struct {
	*manifest.Object
	size int
}

func newSource(name string, maxObjects, maxBytes int) *source {
	return &source{
		name: name, asked: asks(name), entries: map[manifest.ObjectKey]*entry{}, told: map[manifest.ObjectKey]Value{},
		changed: make(chan struct{}, 1), maxObjects: maxObjects, maxBytes: maxBytes,
	}
}

// turn notes that pods have begun or ceased to refer to an object.
func (s *source) turn(key manifest.ObjectKey) {
	if s.turned != nil {
		s.turned[key] = true
	}
}

// wants tells whether pods refer to an object now.
func (s *source) wants(key manifest.ObjectKey) bool {
	e := s.entries[key]
	return e != nil && e.live > 0
}

// wake tells the feeder that other objects may be wanted.
func (s *source) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// follows tells whether what the source says of an object counts.
func (s *source) follows(key manifest.ObjectKey) bool {
	return s.phases[key] == offered || s.phases[key] == given
}

// value is what is known of an object now.
func (s *source) value(ref Ref) Value {
	if s.asked {
		return s.told[ref.ObjectKey]
	}
	if o := s.defined[ref.ObjectKey]; o != nil {
		return Value{State: Present, Object: newObject(ref, o)}
	}
	if s.complete {
		return Value{State: Missing}
	}
	return Value{}
}

// replace puts a set's origins in place of those before, and tells whether that may have changed a value. Origins that are the same
// pointers as before cost one comparison each.
func (s *source) replace(given []*manifest.Origin) (changed bool) {
	if changed, ok := s.replaceInPlace(given); ok {
		return changed
	}
	next := make([]*origin, len(given))
	byName := make(map[string]*origin, len(given))
	complete := true
	// Objects count in the order of their origins.
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

// replaceInPlace is replace for origins with the names of those before, in the same order: as they are as long as no file comes or
// goes. It is false for others.
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

// newOrigin is what an origin has now: what it was given and, while it is held, what it had before and doesn't define anew.
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
