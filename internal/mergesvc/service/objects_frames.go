package service

import (
	"iter"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The field numbers of the messages, as podconfig.v1 has them.
const (
	objectsUpdate    protowire.Number = 1
	objectsContinued protowire.Number = 4
	objectsCursor    protowire.Number = 5
	updateOp         protowire.Number = 1
	updateObjects    protowire.Number = 2
)

// joinSize is up to which size a message is copied into one piece: cheaper to send, and small enough to have twice.
const joinSize = 32 << 10

// operation is one op, and what it is about.
type operation struct {
	op      podconfigv1.ObjectOperation
	changes []objects.Change
}

// operations gathers changes that stand in the order of their ops.
func operations(changes []objects.Change) []operation {
	var out []operation
	for begin := 0; begin < len(changes); {
		end := begin + 1
		for end < len(changes) && changes[end].Op == changes[begin].Op {
			end++
		}
		out = append(out, operation{podconfigv1.ObjectOperation(changes[begin].Op), changes[begin:end]}) //nolint:gosec // Few ops.
		begin = end
	}
	return out
}

// send sends operations as one unit, in messages of wire.FragmentSize at most unless one object alone is larger. The last one bears the
// cursor; without one, more follow. It tells whether there was anything to send: an object that can't be encoded is left out.
func (w *objectWatch) send(ops []operation, cursor *podconfigv1.Cursor) (sent bool, err error) {
	var tail []byte
	if cursor != nil {
		data, err := proto.Marshal(cursor)
		if err != nil {
			return false, status.Error(codes.Internal, err.Error())
		}
		tail = protowire.AppendBytes(protowire.AppendTag(nil, objectsCursor, protowire.BytesType), data)
	}
	var waiting *objectMessage
	for _, o := range ops {
		for m := range w.messages(o) {
			if waiting != nil {
				if err := w.out.frame(waiting.frame(nil)); err != nil {
					return false, err
				}
			}
			waiting = m
		}
	}
	if waiting == nil {
		return false, nil
	}
	if err := w.out.frame(waiting.frame(tail)); err != nil {
		return false, err
	}
	if cursor != nil {
		w.arrived(cursor)
	}
	return true, nil
}

// messages are those of one op. A SET has at least one, as it says that there is nothing else.
func (w *objectWatch) messages(o operation) iter.Seq[*objectMessage] {
	return func(yield func(*objectMessage) bool) {
		m := &objectMessage{op: o.op}
		for _, c := range o.changes {
			data, err := w.encode(c)
			if err != nil {
				w.log.Error("object can't be encoded and isn't sent", "object", c.Ref.ObjectKey.String(), "source", c.Ref.Source, "error", err)
				continue
			}
			if m.size > 0 && m.size+len(data) > wire.FragmentSize {
				if !yield(m) {
					return
				}
				m = &objectMessage{op: o.op}
			}
			m.objects, m.size = append(m.objects, data), m.size+len(data)
		}
		if len(m.objects) > 0 || o.op == podconfigv1.ObjectOperation_OBJECT_OPERATION_SET {
			yield(m)
		}
	}
}

// encode is the object of a change in the consumer's format: the bytes that all consumers share, or the reference alone.
func (w *objectWatch) encode(c objects.Change) ([]byte, error) {
	if c.Object != nil {
		return c.Object.Encode(w.encoding.Format)
	}
	return proto.Marshal(&podconfigv1.Object{Ref: c.Ref.Message()})
}

// objectMessage is one ObjectUpdate.
type objectMessage struct {
	op      podconfigv1.ObjectOperation
	objects [][]byte
	size    int
}

// frame puts the message together, around the objects' own bytes. The tail is what stands behind the update; without one, more
// messages follow.
func (m *objectMessage) frame(tail []byte) wire.Frame {
	if tail == nil {
		tail = protowire.AppendVarint(protowire.AppendTag(nil, objectsContinued, protowire.VarintType), 1)
	}
	op := protowire.AppendVarint(protowire.AppendTag(nil, updateOp, protowire.VarintType), uint64(m.op)) //nolint:gosec // Never negative.
	body := len(op)
	for _, o := range m.objects {
		body += protowire.SizeTag(updateObjects) + protowire.SizeBytes(len(o))
	}
	head := protowire.AppendVarint(protowire.AppendTag(nil, objectsUpdate, protowire.BytesType), uint64(body)) //nolint:gosec // Never negative.
	head = append(head, op...)
	if body <= joinSize {
		data := make([]byte, 0, len(head)+body+len(tail))
		data = append(data, head...)
		for _, o := range m.objects {
			data = protowire.AppendBytes(protowire.AppendTag(data, updateObjects, protowire.BytesType), o)
		}
		return wire.Frame{mem.SliceBuffer(append(data, tail...))}
	}
	out := make(wire.Frame, 0, 2*len(m.objects)+1)
	for _, o := range m.objects {
		head = protowire.AppendVarint(protowire.AppendTag(head, updateObjects, protowire.BytesType), uint64(len(o)))
		out = append(out, mem.SliceBuffer(head), mem.SliceBuffer(o))
		head = nil
	}
	return append(out, mem.SliceBuffer(append(head, tail...)))
}
