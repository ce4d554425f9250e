package relay

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectSet is all objects that the upstream sent, wanted or not. It does no I/O.
type objectSet struct {
	cfg Config
	// held is what the upstream is sent as known. That includes an object that can't be used: receiving it again
	// wouldn't help.
	held *stream.HeldObjects
	// objects are by key, and then by the upstream's source.
	objects      map[sources.ObjectKey]map[string]*heldObject
	count, bytes int
	// sources are the upstream's, in order of priority.
	sources []string
}

// objectID is an object with the upstream's source.
type objectID struct {
	sources.ObjectKey
	source string
}

// heldObject is an object as it was received last. A nil object doesn't exist.
type heldObject struct {
	// digest is the upstream's; empty for an object that doesn't exist.
	digest string
	object *manifest.Object
	size   int
}

func newObjectSet(cfg Config) *objectSet {
	return &objectSet{cfg: cfg, held: stream.NewHeldObjects(nil, nil), objects: map[sources.ObjectKey]map[string]*heldObject{}}
}

// apply takes a revision, and returns which keys it may have changed and which objects can't be used: those stay as
// they were. If the revision as a whole can't be taken, it returns an error and changes nothing.
func (s *objectSet) apply(r *stream.ObjectRevision) (changed map[sources.ObjectKey]bool, unusable []error, err error) {
	if err := hops(r.Path()).check(s.cfg.ID); err != nil {
		return nil, nil, err
	}
	if err := checkObjects(r); err != nil {
		return nil, nil, err
	}
	outcome := s.held.Interpret(r)
	if err := s.fits(outcome.Ops); err != nil {
		return nil, nil, err
	}
	changed = map[sources.ObjectKey]bool{}
	for _, update := range outcome.Ops {
		for _, o := range update.GetObjects() {
			if err := s.take(update.GetOp(), o, changed); err != nil {
				unusable = append(unusable, err)
			}
		}
	}
	if outcome.SourcesChanged {
		s.rank(r.Sources(), changed)
	}
	s.held.Apply(outcome)
	return changed, unusable, nil
}

// fits refuses ops that would exceed the limits.
func (s *objectSet) fits(ops []*podconfigv1.ObjectUpdate) error {
	count, bytes := s.count, s.bytes
	sizes := map[objectID]int{}
	for _, update := range ops {
		for _, o := range update.GetObjects() {
			id := idOf(o.GetRef())
			size, met := sizes[id]
			if old := s.objects[id.ObjectKey][id.source]; old != nil && !met {
				size = old.size
			}
			if size > 0 {
				count, bytes = count-1, bytes-size
			}
			if sizes[id] = 0; update.GetOp() != podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE {
				sizes[id] = proto.Size(o)
				count, bytes = count+1, bytes+sizes[id]
			}
		}
	}
	if count <= s.count && bytes <= s.bytes {
		return nil
	}
	return s.cfg.tooMuch("objects", count, s.cfg.MaxPods, bytes)
}

// take takes one object of an op. It returns an error if the object can't be used.
func (s *objectSet) take(op podconfigv1.ObjectOperation, m *podconfigv1.Object, changed map[sources.ObjectKey]bool) error {
	id := idOf(m.GetRef())
	old := s.objects[id.ObjectKey][id.source]
	switch op {
	case podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE:
		s.put(id, nil, changed)
	case podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING:
		if old == nil || old.object != nil {
			s.put(id, &heldObject{size: proto.Size(m)}, changed)
		}
	default:
		if old != nil && old.object != nil && old.digest == m.GetDigest() {
			return nil
		}
		object, err := decodeObject(m)
		if err != nil {
			return fmt.Errorf("%s %s/%s of source %s: %w", id.Kind, id.Namespace, id.Name, id.source, err)
		}
		s.put(id, &heldObject{digest: m.GetDigest(), object: object, size: proto.Size(m)}, changed)
	}
	return nil
}

func (s *objectSet) put(id objectID, o *heldObject, changed map[sources.ObjectKey]bool) {
	bySource := s.objects[id.ObjectKey]
	if old := bySource[id.source]; old != nil {
		s.count, s.bytes = s.count-1, s.bytes-old.size
		delete(bySource, id.source)
	} else if o == nil {
		return
	}
	changed[id.ObjectKey] = true
	switch {
	case o != nil:
		if bySource == nil {
			bySource = map[string]*heldObject{}
			s.objects[id.ObjectKey] = bySource
		}
		bySource[id.source] = o
		s.count, s.bytes = s.count+1, s.bytes+o.size
	case len(bySource) == 0:
		delete(s.objects, id.ObjectKey)
	}
}

// rank takes the upstream's order of priority, which decides between sources that have one key.
func (s *objectSet) rank(list []*podconfigv1.SourceReadiness, changed map[sources.ObjectKey]bool) {
	var names []string
	for _, r := range list {
		names = append(names, r.GetName())
	}
	if slices.Equal(names, s.sources) {
		return
	}
	s.sources = names
	for key, bySource := range s.objects {
		if len(bySource) > 1 {
			changed[key] = true
		}
	}
}

// value returns the object of a key: that of the first source that has it. known is false if no source reported one.
func (s *objectSet) value(key sources.ObjectKey) (object *manifest.Object, known bool) {
	best := -1
	for source, o := range s.objects[key] {
		known = true
		rank := slices.Index(s.sources, source)
		if rank < 0 {
			rank = len(s.sources)
		}
		if o.object != nil && (best < 0 || rank < best) {
			object, best = o.object, rank
		}
	}
	return object, known
}
