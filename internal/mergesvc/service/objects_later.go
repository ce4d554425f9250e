package service

import (
	"weak"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectsSize is the maximum of objects in a message, in bytes, unless one object is larger. A message is in memory
// as long as the consumer doesn't read.
const objectsSize = wire.FragmentSize / 4

// operation is one op, and the part of it that wasn't sent yet. Like a wire.Later it keeps no version of an object
// from being collected: the Hub has the versions of a revision as long as it keeps the revision. A slower consumer
// gets the current versions, and then the whole state, as the revisions after its own aren't known any more. Its
// cursor isn't honoured for the same reason.
type operation struct {
	op   podconfigv1.ObjectOperation
	rest []laterObject
	// bare is set if the op is sent even without objects: a SET then means that there are none.
	bare bool
}

// laterObject is an object of an operation. Without content only its reference is sent.
type laterObject struct {
	ref     objects.Ref
	content bool
	version weak.Pointer[objects.Object]
}

func newOperation(op podconfigv1.ObjectOperation) operation {
	return operation{op: op, bare: op == podconfigv1.ObjectOperation_OBJECT_OPERATION_SET}
}

func (o *operation) add(c objects.Change) {
	l := laterObject{ref: c.Ref}
	if c.Object != nil {
		l.content, l.version = true, weak.Make(c.Object)
	}
	o.rest = append(o.rest, l)
}

// operations groups changes, which are in the order of their ops.
func operations(changes []objects.Change) []operation {
	var out []operation
	for i, c := range changes {
		if i == 0 || c.Op != changes[i-1].Op {
			out = append(out, newOperation(podconfigv1.ObjectOperation(c.Op))) //nolint:gosec // Few ops.
		}
		out[len(out)-1].add(c)
	}
	return out
}

// send sends operations as one unit. The last message has the cursor; without one, the unit goes on. It reports
// whether there was anything to send: an object that can't be encoded is left out. The caller must hold no object of
// the operations: while the consumer doesn't read, they must not stay in memory for it.
func (w *objectWatch) send(ops []operation, cursor *podconfigv1.Cursor) (sent bool, err error) {
	if err := w.checkNodes(); err != nil {
		return false, err
	}
	var tail []byte
	if cursor != nil {
		data, err := proto.Marshal(cursor)
		if err != nil {
			return false, statusOf(err)
		}
		tail = protowire.AppendBytes(protowire.AppendTag(nil, objectsCursor, protowire.BytesType), data)
	}
	closed := false
	for len(ops) > 0 {
		m := w.message(&ops[0])
		if len(ops[0].rest) == 0 {
			ops = ops[1:]
		}
		if m == nil {
			continue
		}
		var end []byte
		if closed = len(ops) == 0; closed {
			end = tail
		}
		if err := w.out.frame(m.frame(end)); err != nil {
			return false, err
		}
		sent = true
	}
	if !sent || cursor == nil {
		return sent, nil
	}
	if !closed {
		// The rest can't be sent: the consumer must still learn that the unit ends.
		if err := w.out.send(w.heartbeatOf(cursor)); err != nil {
			return false, err
		}
	}
	w.arrived(cursor)
	return true, nil
}

// message takes one message from the op, or nil if nothing is left.
func (w *objectWatch) message(o *operation) *objectMessage {
	m := &objectMessage{op: o.op}
	for ; len(o.rest) > 0; o.rest = o.rest[1:] {
		data, err := w.encode(o.rest[0])
		if err != nil {
			ref := o.rest[0].ref
			w.log.Error("object can't be encoded and isn't sent", "object", ref.ObjectKey.String(), "source", ref.Source, "error", err)
		}
		if data == nil {
			continue
		}
		if m.size > 0 && m.size+len(data) > objectsSize {
			break
		}
		m.objects, m.size = append(m.objects, data), m.size+len(data)
	}
	if len(m.objects) == 0 && !o.bare {
		return nil
	}
	o.bare = false
	return m
}

// encode returns an object in the consumer's format: the bytes that all consumers share, or the reference alone. Nil:
// its version is gone, and the consumer sees no other.
func (w *objectWatch) encode(l laterObject) ([]byte, error) {
	if !l.content {
		return proto.Marshal(&podconfigv1.Object{Ref: l.ref.Message()})
	}
	object := l.version.Value()
	if object == nil {
		if object = w.objects.Now(l.ref, w.scope).Object; object == nil {
			return nil, nil
		}
	}
	return object.Encode(w.encoding.Format())
}
