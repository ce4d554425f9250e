package relay

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectSet is what the upstream told of objects, wanted or not. It is a value without I/O.
type objectSet struct {
	cfg    Config
	cursor *podconfigv1.Cursor
	// objects are by key, and then by the upstream's source.
	objects      map[sources.ObjectKey]map[string]*heldObject
	count, bytes int
	// sources are the upstream's, in order of priority.
	sources []string
	// seen is what a SET of the present stream had, until synced tells what that means. Nil: there was none.
	seen map[objectID]bool
}

// objectID is an object with the upstream's source.
type objectID struct {
	sources.ObjectKey
	source string
}

// heldObject is an object as it was told last. A nil object is one that doesn't exist.
type heldObject struct {
	// digest is the upstream's; empty for one that doesn't exist.
	digest string
	object *manifest.Object
	size   int
}

// objectUnit is what came up to a cursor.
type objectUnit struct {
	updates []*podconfigv1.ObjectUpdate
	synced  *podconfigv1.Synced
	beat    *podconfigv1.Heartbeat
	cursor  *podconfigv1.Cursor
}

// path is the path that the unit tells, if it does: then it tells all sources, too.
func (u *objectUnit) path() (path hops, told bool) {
	if u.synced != nil {
		return u.synced.GetPath(), true
	}
	return u.beat.GetPath(), u.beat != nil
}

// readiness is that of all sources, in order of priority.
func (u *objectUnit) readiness() []*podconfigv1.SourceReadiness {
	if u.synced != nil {
		return u.synced.GetSources()
	}
	return u.beat.GetSources()
}

func newObjectSet(cfg Config) *objectSet {
	return &objectSet{cfg: cfg, objects: map[sources.ObjectKey]map[string]*heldObject{}}
}

// maxKnownBytes is how much a request says of what is held: gRPC refuses one of more than 4 MiB.
const maxKnownBytes = 3 << 20

// request is what to ask the upstream for, so that it goes on where it was. If it can't name all that is held, it has a cursor
// that nobody honours, so that a SET comes.
func (s *objectSet) request(base *podconfigv1.WatchObjectsRequest) *podconfigv1.WatchObjectsRequest {
	s.seen = nil
	request := proto.CloneOf(base)
	request.ResumeAfter = s.cursor
	for key, bySource := range s.objects {
		for source, o := range bySource {
			request.KnownObjects = append(request.KnownObjects, &podconfigv1.KnownObject{Digest: o.digest, Ref: &podconfigv1.ObjectRef{
				Kind: podconfigv1.ObjectKind(key.Kind), Namespace: key.Namespace, Name: key.Name, Source: source,
			}})
		}
	}
	if proto.Size(request) > maxKnownBytes {
		request.KnownObjects, request.ResumeAfter = nil, &podconfigv1.Cursor{}
	}
	return request
}

// apply takes a unit, and tells which keys it may have changed and which objects can't be used: those stay as they were. It
// fails, and then nothing has changed, if the unit as a whole can't be taken.
func (s *objectSet) apply(u *objectUnit) (changed map[sources.ObjectKey]bool, unusable []error, err error) {
	path, told := u.path()
	if err := path.check(s.cfg.ID); err != nil {
		return nil, nil, err
	}
	if err := checkObjects(u); err != nil {
		return nil, nil, err
	}
	if err := s.fits(u); err != nil {
		return nil, nil, err
	}
	changed = map[sources.ObjectKey]bool{}
	for _, update := range u.updates {
		if update.GetOp() == podconfigv1.ObjectOperation_OBJECT_OPERATION_SET && s.seen == nil {
			s.seen = map[objectID]bool{}
		}
		for _, o := range update.GetObjects() {
			if err := s.take(update.GetOp(), o, changed); err != nil {
				unusable = append(unusable, err)
			}
		}
	}
	if told {
		s.rank(u.readiness(), changed)
	}
	if u.synced != nil {
		s.settle(u.synced.GetSources(), changed)
	}
	// What a SET doesn't have is known with synced only: a stream that breaks before has to tell it again.
	if u.cursor != nil && s.seen == nil {
		s.cursor = u.cursor
	}
	return changed, unusable, nil
}

// fits refuses a unit with which there would be too much. What only synced tells to be gone counts still.
func (s *objectSet) fits(u *objectUnit) error {
	count, bytes := s.count, s.bytes
	sizes := map[objectID]int{}
	for _, update := range u.updates {
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

// take is one object of an op. It fails if the object can't be used.
func (s *objectSet) take(op podconfigv1.ObjectOperation, m *podconfigv1.Object, changed map[sources.ObjectKey]bool) error {
	id := idOf(m.GetRef())
	if s.seen != nil {
		s.seen[id] = true
	}
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

// rank takes the upstream's order of priority, which may decide otherwise between two sources that have one key.
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

// settle drops what a SET didn't have, of sources that are ready.
func (s *objectSet) settle(list []*podconfigv1.SourceReadiness, changed map[sources.ObjectKey]bool) {
	if s.seen == nil {
		return
	}
	ready := map[string]bool{}
	for _, r := range list {
		ready[r.GetName()] = r.GetReady()
	}
	for key, bySource := range s.objects {
		for source := range bySource {
			if id := (objectID{key, source}); ready[source] && !s.seen[id] {
				s.put(id, nil, changed)
			}
		}
	}
	s.seen = nil
}

// value is what is to be told of a key: of several sources the first has it that has the object at all. Not known: nothing.
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
