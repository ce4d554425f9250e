package stream

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	objectPut     = podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT
	objectRemove  = podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE
	objectMissing = podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING
	objectSet     = podconfigv1.ObjectOperation_OBJECT_OPERATION_SET
)

// ObjectOutcome is the effect of a revision of the objects on the consumer.
type ObjectOutcome struct {
	// Ops are applied in this order: first the REMOVEs that have become certain, then the revision's own ops. A SET
	// becomes a PUT of the new and changed objects.
	Ops []*podconfigv1.ObjectUpdate
	// Cursor is the consumer's position afterwards.
	Cursor *podconfigv1.Cursor
	// Moved reports whether Cursor differs from the former position.
	Moved bool
	// SourcesChanged reports whether the revision lists other sources, another order or another readiness than this
	// stream listed before.
	SourcesChanged bool

	// The state that Apply records. A nil digest is a removed object.
	digests map[objectKey]*string
	absent  map[objectKey]bool
	sources []*podconfigv1.SourceReadiness
	synced  bool
}

// Interpret returns the effect of a revision. It changes nothing: a revision that isn't passed to Apply has no
// effect.
func (h *HeldObjects) Interpret(r *ObjectRevision) ObjectOutcome {
	i := &objectInterpreter{held: h, outcome: ObjectOutcome{
		Cursor: h.cursor, digests: map[objectKey]*string{}, absent: maps.Clone(h.absent), sources: h.sources,
		synced: h.synced || r.Synced != nil,
	}}
	o := &i.outcome
	if r.Cursor != nil {
		o.Cursor, o.Moved = r.Cursor, !proto.Equal(r.Cursor, h.cursor)
	}
	for _, u := range r.Updates {
		if u.GetOp() == objectSet {
			i.markAbsent()
		}
		for _, object := range u.GetObjects() {
			i.take(u.GetOp(), object)
		}
	}
	if r.TellsSources() {
		o.sources = r.Sources()
		o.SourcesChanged = !slices.EqualFunc(o.sources, h.sources, func(a, b *podconfigv1.SourceReadiness) bool { return proto.Equal(a, b) })
		i.settle()
	}
	return *o
}

// objectInterpreter reads one revision, op by op.
type objectInterpreter struct {
	held    *HeldObjects
	outcome ObjectOutcome
}

// digest returns the digest of an object after the ops so far, and whether the object is held.
func (i *objectInterpreter) digest(key objectKey) (digest string, held bool) {
	if d, touched := i.outcome.digests[key]; touched {
		if d == nil {
			return "", false
		}
		return *d, true
	}
	digest, held = i.held.digests[key]
	return digest, held
}

// markAbsent marks all held objects as absent, at the start of a SET.
func (i *objectInterpreter) markAbsent() {
	for key := range i.held.digests {
		if _, held := i.digest(key); held {
			i.outcome.absent[key] = true
		}
	}
	for key, digest := range i.outcome.digests {
		if digest != nil {
			i.outcome.absent[key] = true
		}
	}
}

// take applies one object of an op, and appends it if it is new or changed. An absent object may come again, as no
// request lists it.
func (i *objectInterpreter) take(op podconfigv1.ObjectOperation, object *podconfigv1.Object) {
	key, digest := objectKeyOf(object.GetRef()), object.GetDigest()
	before, held := i.digest(key)
	expected := op == objectSet || i.outcome.absent[key]
	delete(i.outcome.absent, key)
	switch op {
	case objectRemove:
		i.outcome.digests[key] = nil
		i.pass(op, object)
		return
	case objectMissing:
		expected, digest = true, ""
	default:
		op = objectPut
	}
	i.outcome.digests[key] = &digest
	if !held || before != digest || !expected {
		i.pass(op, object)
	}
}

func (i *objectInterpreter) pass(op podconfigv1.ObjectOperation, object *podconfigv1.Object) {
	o := &i.outcome
	if n := len(o.Ops); n == 0 || o.Ops[n-1].GetOp() != op {
		o.Ops = append(o.Ops, &podconfigv1.ObjectUpdate{Op: op})
	}
	last := o.Ops[len(o.Ops)-1]
	last.Objects = append(last.Objects, object)
}

// settle puts the REMOVEs that have become certain before the other ops: of objects that a SET lacked, once their
// source is ready. Before the initial state is complete, readiness doesn't cover the objects that are still to come.
func (i *objectInterpreter) settle() {
	if !i.outcome.synced {
		return
	}
	gone := &podconfigv1.ObjectUpdate{Op: objectRemove}
	for _, key := range slices.SortedFunc(maps.Keys(i.outcome.absent), objectKey.compare) {
		if i.decided(key.source) {
			delete(i.outcome.absent, key)
			i.outcome.digests[key] = nil
			gone.Objects = append(gone.Objects, &podconfigv1.Object{Ref: key.ref()})
		}
	}
	if len(gone.GetObjects()) > 0 {
		i.outcome.Ops = append([]*podconfigv1.ObjectUpdate{gone}, i.outcome.Ops...)
	}
}

// decided reports whether a source is ready, or isn't configured any more while all configured sources are ready.
func (i *objectInterpreter) decided(source string) bool {
	sources := i.outcome.sources
	for _, s := range sources {
		if s.GetName() == source {
			return s.GetReady()
		}
	}
	return len(sources) > 0 && objectsReady(sources)
}
