package stream

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectKey identifies an object.
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

// HeldObjects is Held for objects: it keeps references and digests, not content. It is not safe for concurrent use.
type HeldObjects struct {
	cursor *podconfigv1.Cursor
	// digests are the digests of the held objects. An empty digest is an object that is known to be missing.
	digests map[objectKey]string
	// bytes is the size of digests.
	bytes int
	// absent are held objects that a SET lacked while their source wasn't known to be ready. No request lists them:
	// on any stream podconfigd either sends them again or reports their source as ready.
	absent map[objectKey]bool
	// sources is the last readiness on the current stream. synced reports whether the stream's initial state is
	// complete.
	sources []*podconfigv1.SourceReadiness
	synced  bool
	// settled is as in Held.
	settled bool
	// reset makes the next stream start with a SET.
	reset bool
}

// NewHeldObjects returns the state of a consumer that stored cursor and objects together. Nil and no objects mean
// that it starts with the current state.
func NewHeldObjects(cursor *podconfigv1.Cursor, known []*podconfigv1.KnownObject) *HeldObjects {
	h := &HeldObjects{cursor: cursor, digests: make(map[objectKey]string, len(known)), absent: map[objectKey]bool{}}
	for _, k := range known {
		digest := k.GetDigest()
		h.put(objectKeyOf(k.GetRef()), &digest)
	}
	return h
}

// Anew makes the next stream start with a SET, whatever is held. Every version understands a SET.
func (h *HeldObjects) Anew() { h.reset = true }

// Begin starts a stream: it discards the state of the former stream, and returns the next request, a copy of base
// with the cursor and the held objects. Objects beyond the bounds of one request are handled as in Held.Begin.
func (h *HeldObjects) Begin(base *podconfigv1.WatchObjectsRequest) *podconfigv1.WatchObjectsRequest {
	h.sources, h.synced = nil, false
	request := proto.CloneOf(base)
	if request == nil {
		request = &podconfigv1.WatchObjectsRequest{}
	}
	request.ResumeAfter, request.KnownObjects = nil, nil
	if h.reset {
		h.reset = false
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

// fitObjects reports whether one request can list the objects.
func fitObjects(objects []*podconfigv1.KnownObject) bool {
	return len(objects) <= maxKnownObjects && proto.Size(&podconfigv1.WatchObjectsRequest{KnownObjects: objects}) <= maxKnownBytes
}

// maxKnownObjects is podconfigd's bound for one request.
const maxKnownObjects = 20_000

// Apply records an outcome as applied. It must be the outcome of the last Interpret.
func (h *HeldObjects) Apply(o ObjectOutcome) {
	for key, digest := range o.digests {
		h.put(key, digest)
	}
	h.sources, h.absent, h.synced, h.cursor = o.sources, o.absent, o.synced, o.Cursor
	h.settled = o.synced && len(o.sources) > 0 && objectsReady(o.sources)
}

// put replaces a held object. Nil: it isn't held any more.
func (h *HeldObjects) put(key objectKey, digest *string) {
	if old, held := h.digests[key]; held {
		h.bytes -= key.size() + len(old)
		delete(h.digests, key)
	}
	if digest != nil {
		h.bytes += key.size() + len(*digest)
		h.digests[key] = *digest
	}
}

// size returns about how many bytes an object with this key takes, without its digest.
func (k objectKey) size() int { return len(k.source) + len(k.namespace) + len(k.name) + itemBytes }

// Size returns the number of held objects, and about how many bytes they take.
func (h *HeldObjects) Size() (objects, bytes int) { return len(h.digests), h.bytes }

// Cursor returns the position after all applied revisions. Nil means that none was applied.
func (h *HeldObjects) Cursor() *podconfigv1.Cursor { return h.cursor }

// Known returns the held objects and, without a digest, the missing ones; sorted by source, kind, namespace and name.
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
