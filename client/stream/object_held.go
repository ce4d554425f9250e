package stream

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectKey names an object.
type objectKey struct {
	kind                    podconfigv1.ObjectKind
	source, namespace, name string
}

func objectKeyOf(r *podconfigv1.ObjectRef) objectKey {
	return objectKey{r.GetKind(), r.GetSource(), r.GetNamespace(), r.GetName()}
}

func (k objectKey) compare(other objectKey) int {
	return cmp.Or(cmp.Compare(k.source, other.source), cmp.Compare(k.kind, other.kind),
		cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

func (k objectKey) ref() *podconfigv1.ObjectRef {
	return &podconfigv1.ObjectRef{Kind: k.kind, Source: k.source, Namespace: k.namespace, Name: k.name}
}

// HeldObjects is what a consumer holds of objects, as Held is of pods: references and digests, not their content. It is not safe for
// concurrent use.
type HeldObjects struct {
	cursor *podconfigv1.Cursor
	// digests are those of the objects that are held; empty ones of those that are known to be missing.
	digests map[objectKey]string
	// absent are held objects that a SET didn't have while their source wasn't known to be ready. No request names them: whether it
	// tells that they are there, or that all is known of their source, podconfigd decides about them on any stream.
	absent map[objectKey]bool
	// sources is the readiness that the current stream told last, and synced is set once its initial state is complete.
	sources []*podconfigv1.SourceReadiness
	synced  bool
	// settled is as in Held.
	settled bool
	// anew makes the next stream begin with everything.
	anew bool
}

// NewHeldObjects returns what a consumer holds from an earlier life: the cursor and the objects that were given together. Nil and none:
// it starts anew.
func NewHeldObjects(cursor *podconfigv1.Cursor, known []*podconfigv1.KnownObject) *HeldObjects {
	h := &HeldObjects{cursor: cursor, digests: make(map[objectKey]string, len(known)), absent: map[objectKey]bool{}}
	for _, k := range known {
		h.digests[objectKeyOf(k.GetRef())] = k.GetDigest()
	}
	return h
}

// Anew makes the next stream begin with a SET, whatever is held: the least that every version understands.
func (h *HeldObjects) Anew() { h.anew = true }

// Begin forgets what was true of the stream before only, and returns what to ask the next one for: base, with the place to resume
// from and the objects that are held. If they are more than a request can name, they are left out, as Held.Begin does.
func (h *HeldObjects) Begin(base *podconfigv1.WatchObjectsRequest) *podconfigv1.WatchObjectsRequest {
	h.sources, h.synced = nil, false
	request := proto.CloneOf(base)
	if request == nil {
		request = &podconfigv1.WatchObjectsRequest{}
	}
	request.ResumeAfter, request.KnownObjects = nil, nil
	if h.anew {
		h.anew = false
		return request
	}
	request.ResumeAfter = h.cursor
	known := h.known(func(key objectKey) bool { return !h.absent[key] })
	if fitObjects(known) {
		request.KnownObjects = known
	} else if h.cursor == nil || !h.settled {
		request.ResumeAfter = &podconfigv1.Cursor{}
	}
	return request
}

// fitObjects tells whether a request can name the objects.
func fitObjects(objects []*podconfigv1.KnownObject) bool {
	return len(objects) <= maxKnownObjects && proto.Size(&podconfigv1.WatchObjectsRequest{KnownObjects: objects}) <= maxKnownBytes
}

// maxKnownObjects is how many podconfigd takes.
const maxKnownObjects = 20_000

// Apply remembers an outcome as applied. It must be that of the last Interpret.
func (h *HeldObjects) Apply(o ObjectOutcome) {
	for key, digest := range o.digests {
		if digest == nil {
			delete(h.digests, key)
		} else {
			h.digests[key] = *digest
		}
	}
	h.sources, h.absent, h.synced, h.cursor = o.sources, o.absent, o.synced, o.Cursor
	h.settled = o.synced && len(o.sources) > 0 && objectsReady(o.sources)
}

// Cursor is the place after all that was applied. Nil: nothing was.
func (h *HeldObjects) Cursor() *podconfigv1.Cursor { return h.cursor }

// Known are the held objects, and those that are known to be missing, without a digest; sorted by source, kind, namespace and name.
func (h *HeldObjects) Known() []*podconfigv1.KnownObject {
	return h.known(func(objectKey) bool { return true })
}

func (h *HeldObjects) known(which func(objectKey) bool) []*podconfigv1.KnownObject {
	var out []*podconfigv1.KnownObject
	for _, key := range slices.SortedFunc(maps.Keys(h.digests), objectKey.compare) {
		if which(key) {
			out = append(out, &podconfigv1.KnownObject{Ref: key.ref(), Digest: h.digests[key]})
		}
	}
	return out
}

func objectsReady(sources []*podconfigv1.SourceReadiness) bool {
	return !slices.ContainsFunc(sources, func(s *podconfigv1.SourceReadiness) bool { return !s.GetReady() })
}
