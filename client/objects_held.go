package client

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// heldObjects is what a consumer was given, as far as the next stream needs it. Only begin changes it: interpret returns what
// comes after.
type heldObjects struct {
	cursor *podconfigv1.Cursor
	// digests are those of the objects that it holds; empty ones of those that it knows to be missing.
	digests map[ObjectRef]string
	// absent are held objects that a SET didn't have: they are gone, if their source is ready.
	absent map[ObjectRef]bool
	// sources is the readiness that this stream has told.
	sources []Source
}

func newHeldObjects(cursor *podconfigv1.Cursor, known []Object) *heldObjects {
	h := &heldObjects{cursor: cursor, digests: map[ObjectRef]string{}, absent: map[ObjectRef]bool{}}
	for _, o := range known {
		h.digests[o.ObjectRef] = o.Digest
	}
	return h
}

// begin is the request of the next stream, which goes on where the last one ended, or begins with everything. The stream before has
// ended.
func (h *heldObjects) begin(request *podconfigv1.WatchObjectsRequest, anew bool) *podconfigv1.WatchObjectsRequest {
	h.sources = nil
	request = proto.CloneOf(request)
	if anew {
		return request
	}
	request.ResumeAfter = h.cursor
	if len(h.digests) > maxKnownObjects {
		return request
	}
	// From here on podconfigd decides about them.
	h.absent = map[ObjectRef]bool{}
	for _, ref := range slices.SortedFunc(maps.Keys(h.digests), compareRefs) {
		request.KnownObjects = append(request.KnownObjects, &podconfigv1.KnownObject{Ref: ref.message(), Digest: h.digests[ref]})
	}
	return request
}

// interpret tells what a unit means for the consumer, and what it holds afterwards. A SET becomes the difference to what is held.
func (h *heldObjects) interpret(u *objectUnit) (ObjectEvent, *heldObjects, error) {
	after := &heldObjects{cursor: h.cursor, digests: maps.Clone(h.digests), absent: maps.Clone(h.absent), sources: h.sources}
	e := ObjectEvent{Synced: u.synced}
	if u.cursor != nil && !proto.Equal(u.cursor, h.cursor) || u.synced {
		after.cursor, e.Cursor = u.cursor, u.cursor
	}
	if isSet(u) {
		for ref := range h.digests {
			after.absent[ref] = true
		}
	}
	for _, update := range u.updates {
		for _, m := range update.GetObjects() {
			if err := after.apply(&e, update.GetOp(), m); err != nil {
				return ObjectEvent{}, nil, err
			}
		}
	}
	if u.tells {
		sources := decodeSources(u.sources)
		if u.synced || !slices.Equal(sources, h.sources) {
			e.Sources = sources
		}
		after.sources = sources
		after.settle(&e)
	}
	return e, after, nil
}

func isSet(u *objectUnit) bool {
	return slices.ContainsFunc(u.updates, func(update *podconfigv1.ObjectUpdate) bool {
		return update.GetOp() == podconfigv1.ObjectOperation_OBJECT_OPERATION_SET
	})
}

// apply takes in one object of an op.
func (h *heldObjects) apply(e *ObjectEvent, op podconfigv1.ObjectOperation, m *podconfigv1.Object) error {
	ref := objectRef(m.GetRef())
	digest, held := h.digests[ref]
	delete(h.absent, ref)
	switch op {
	case podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE:
		delete(h.digests, ref)
		e.Removed = append(e.Removed, ref)
	case podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING:
		if held && digest == "" {
			return nil
		}
		h.digests[ref] = ""
		e.Missing = append(e.Missing, ref)
	default:
		if op == podconfigv1.ObjectOperation_OBJECT_OPERATION_SET && held && digest == m.GetDigest() {
			return nil
		}
		o, err := decodeObject(m)
		if err != nil {
			return err
		}
		h.digests[ref] = o.Digest
		e.Put = append(e.Put, o)
	}
	return nil
}

// settle removes what a SET didn't have once its source is ready, or isn't configured and all others are.
func (h *heldObjects) settle(e *ObjectEvent) {
	for _, ref := range slices.SortedFunc(maps.Keys(h.absent), compareRefs) {
		if !h.decided(ref.Source) {
			continue
		}
		delete(h.absent, ref)
		delete(h.digests, ref)
		e.Removed = append(e.Removed, ref)
	}
}

func (h *heldObjects) decided(source string) bool {
	all := true
	for _, s := range h.sources {
		if s.Name == source {
			return s.Ready
		}
		all = all && s.Ready
	}
	return all
}

func compareRefs(a, b ObjectRef) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
