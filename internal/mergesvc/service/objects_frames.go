package service

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

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

// joinSize is the size up to which a message is copied into one piece: that is cheaper to send, and the copy is
// small.
const joinSize = 32 << 10

// objectMessage is one ObjectUpdate.
type objectMessage struct {
	op      podconfigv1.ObjectOperation
	objects [][]byte
	size    int
}

// frame builds the message around the objects' own bytes. tail follows the update; without one, the unit has more
// messages.
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
