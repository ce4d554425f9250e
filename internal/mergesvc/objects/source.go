package objects

import (
	"fmt"

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
	// complete is set if what isn't defined doesn't exist: the source was read, and no origin is held that was never good.
	complete bool
	// shadowed are the objects that another origin or document defines before.
	shadowed []merge.Finding

	// Of a source that is asked.
	asked bool
	// told is what it has said of the objects that it was given to follow.
	told map[manifest.ObjectKey]Value
	// given are those that it follows, and offered those that it is being given. Dropped are those that it follows still and is to
	// leave: what it tells of these grows old, so it has to have left them before it is given them again.
	given, offered, dropped map[manifest.ObjectKey]bool
	// changed gets a value when other objects may be wanted.
	changed chan struct{}
}

// origin is one origin's objects: those that it was last given, and those kept from before while it is held.
type origin struct {
	given  *manifest.Origin
	offers []*manifest.Object
	// wasGood is set once the origin could be used in full.
	wasGood bool
}

func newSource(name string) *source {
	return &source{
		name: name, asked: asks(name), entries: map[manifest.ObjectKey]*entry{}, told: map[manifest.ObjectKey]Value{},
		dropped: map[manifest.ObjectKey]bool{}, changed: make(chan struct{}, 1),
	}
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
	return (s.given[key] || s.offered[key]) && !s.dropped[key]
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
		complete = complete && next[i].wasGood
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
		complete = complete && s.origins[i].wasGood
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
	o := &origin{given: given, offers: given.Objects, wasGood: !given.Held || old != nil && old.wasGood}
	if !given.Held || old == nil || len(old.offers) == 0 {
		return o
	}
	fresh := map[manifest.ObjectKey]bool{}
	for _, object := range given.Objects {
		fresh[object.Key()] = true
	}
	o.offers = append([]*manifest.Object(nil), given.Objects...)
	for _, object := range old.offers {
		if !fresh[object.Key()] {
			o.offers = append(o.offers, object)
		}
	}
	return o
}

// define decides which objects count: of two with one name the first.
func (s *source) define() {
	s.defined, s.shadowed = nil, nil
	var from map[manifest.ObjectKey]string
	for _, o := range s.origins {
		for _, object := range o.offers {
			key := object.Key()
			if first, ok := from[key]; ok {
				s.shadowed = append(s.shadowed, shadowed(key, o.given.Name, object.Document, first))
				continue
			}
			if s.defined == nil {
				s.defined, from = map[manifest.ObjectKey]*manifest.Object{}, map[manifest.ObjectKey]string{}
			}
			s.defined[key], from[key] = object, o.given.Name
		}
	}
}

func shadowed(key manifest.ObjectKey, origin string, document int, first string) merge.Finding {
	f := manifest.Finding{
		Severity: manifest.Warning, Document: document,
		Message:  fmt.Sprintf("%s isn't used: %s has one too, and comes first", key, first),
		Unquoted: "isn't used: another one of that kind and name comes first",
	}
	if first == origin {
		f.Message = fmt.Sprintf("%s isn't used: an earlier document has one too", key)
	}
	return merge.Finding{Finding: f, Origin: origin}
}
