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

// ObjectOutcome is what a revision of the objects means for the consumer.
type ObjectOutcome struct {
	// Ops are what to apply, in this order: the REMOVEs that have become certain, and the revision's own ops. A SET has become a PUT of
	// what is new or changed.
	Ops []*podconfigv1.ObjectUpdate
	// Cursor is where the consumer is afterwards.
	Cursor *podconfigv1.Cursor
	// Moved is set if that is another place than the one before.
	Moved bool
	// SourcesChanged is set if the revision tells of other sources, another order of them or another readiness than this stream told
	// before.
	SourcesChanged bool

	// What Apply is to remember. A nil digest is that of an object that is gone.
	digests map[objectKey]*string
	absent  map[objectKey]bool
	sources []*podconfigv1.SourceReadiness
	synced  bool
}

// Interpret tells what a revision means. It changes nothing: what isn't applied in the end was never there.
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
			i.doubt()
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

// digest is that of the object as it is held after the ops so far.
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

// doubt makes all that is held absent: a SET begins.
func (i *objectInterpreter) doubt() {
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

// take takes in one object of an op, and passes it on if it is news. As no request names what is absent, it may come again.
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

// settle puts the REMOVEs that have become certain before the other ops: of what a SET didn't have, once all is known of its source.
// Before the initial state is complete, readiness says nothing of what is still to come.
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

// decided tells whether a source is ready, or isn't configured any more and all that are are ready.
func (i *objectInterpreter) decided(source string) bool {
	sources := i.outcome.sources
	for _, s := range sources {
		if s.GetName() == source {
			return s.GetReady()
		}
	}
	return len(sources) > 0 && objectsReady(sources)
}
