package wire

import (
	"iter"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a message.
const (
	// FragmentSize is the maximum of pods in a message, in bytes, unless one pod is larger.
	FragmentSize = 1 << 20
	// joinSize is the size up to which a message is copied into one piece: that is cheaper to send, and the copy is
	// small.
	joinSize = 32 << 10
)

// The field numbers of the messages, as podconfig.v1 has them.
const (
	responseUpdate    protowire.Number = 1
	responseContinued protowire.Number = 4
	responseCursor    protowire.Number = 5
	updatePods        protowire.Number = 3
)

// Unit is what a consumer applies as a whole: one revision, or one catch-up.
type Unit struct {
	Number  uint64
	Changes []revision.Change
	// Observed is when the source was read. Zero in a catch-up.
	Observed time.Time
	Trace    revision.Trace
	// Sources are those at Number or at a later revision.
	Sources history.Sources
	// Before are the sources that the consumer was sent. The REMOVEs of a source that isn't configured any more
	// report it as ready if it was ready: they are complete, and a consumer that doesn't follow the list of sources
	// must not wait for the source forever. Nil: they are Sources.
	Before history.Sources
	// Cursor is on the last message. Nil leaves it to the synced that follows at once.
	Cursor *podconfigv1.Cursor
}

// Frames returns the unit's messages, each made when needed; none if the unit has no changes.
func Frames(u Unit, e revision.Encoding) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		var waiting *message
		for _, c := range u.Changes {
			for m, err := range messages(u, c, e) {
				if err != nil {
					yield(nil, err)
					return
				}
				if waiting != nil && !yield(waiting.frame(early(u.Cursor))) {
					return
				}
				waiting = m
			}
		}
		if waiting != nil {
			yield(waiting.frame(u.Cursor))
		}
	}
}

// early returns the cursor of a message that isn't the last one: none.
func early(cursor *podconfigv1.Cursor) *podconfigv1.Cursor {
	if failpoint.Active(failpoint.EarlyCursor) {
		return cursor
	}
	return nil
}

// message is a PodUpdate: its fields other than the pods, and the pods.
type message struct {
	header []byte
	pods   [][]byte
	size   int
}

// messages returns the messages of one change: one, or more if the pods are too many for one.
func messages(u Unit, c revision.Change, e revision.Encoding) iter.Seq2[*message, error] {
	return func(yield func(*message, error) bool) {
		header, err := proto.Marshal(updateHeader(u, c))
		if err != nil {
			yield(nil, err)
			return
		}
		m := &message{header: header}
		for _, p := range c.Pods {
			data, err := encode(p, c.Op, e)
			if err != nil {
				yield(nil, err)
				return
			}
			if m.size > 0 && m.size+len(data) > FragmentSize {
				if !yield(m, nil) {
					return
				}
				m = &message{header: header}
			}
			m.pods, m.size = append(m.pods, data), m.size+len(data)
		}
		yield(m, nil)
	}
}

func encode(p *revision.Pod, op revision.Op, e revision.Encoding) ([]byte, error) {
	if op == revision.REMOVE {
		return p.EncodeRemoved(e)
	}
	return p.Encode(e)
}

func updateHeader(u Unit, c revision.Change) *podconfigv1.PodUpdate {
	m := &podconfigv1.PodUpdate{
		Op: podconfigv1.PodOperation(c.Op), Source: c.Source, SourceReady: u.ready(c.Source),
	}
	if !u.Observed.IsZero() {
		m.ObservedTime = timestamppb.New(u.Observed)
	}
	if u.Trace.Parent != "" {
		m.TraceContext = &podconfigv1.TraceContext{Traceparent: u.Trace.Parent, Tracestate: u.Trace.State}
	}
	return m
}

// ready is the readiness of a source in the unit.
func (u Unit) ready(source string) bool {
	if u.Sources.Configured(source) {
		return u.Sources.ReadyAt(source, u.Number)
	}
	return u.Before.ReadyAt(source, u.Number)
}

// frame builds the message. With a cursor it is the last one of its unit; without one, more follow.
func (m *message) frame(cursor *podconfigv1.Cursor) (Frame, error) {
	body := len(m.header)
	for _, p := range m.pods {
		body += protowire.SizeTag(updatePods) + protowire.SizeBytes(len(p))
	}
	var tail []byte
	if cursor != nil {
		data, err := proto.Marshal(cursor)
		if err != nil {
			return nil, err
		}
		tail = protowire.AppendBytes(protowire.AppendTag(nil, responseCursor, protowire.BytesType), data)
	} else {
		tail = protowire.AppendVarint(protowire.AppendTag(nil, responseContinued, protowire.VarintType), 1)
	}
	head := protowire.AppendVarint(protowire.AppendTag(nil, responseUpdate, protowire.BytesType), uint64(body))
	head = append(head, m.header...)
	if body <= joinSize {
		data := make([]byte, 0, len(head)+body+len(tail))
		data = append(data, head...)
		for _, p := range m.pods {
			data = protowire.AppendBytes(protowire.AppendTag(data, updatePods, protowire.BytesType), p)
		}
		return Frame{mem.SliceBuffer(append(data, tail...))}, nil
	}
	out := make(Frame, 0, 2*len(m.pods)+2)
	for _, p := range m.pods {
		head = protowire.AppendVarint(protowire.AppendTag(head, updatePods, protowire.BytesType), uint64(len(p)))
		out = append(out, mem.SliceBuffer(head), mem.SliceBuffer(p))
		head = nil
	}
	return append(out, mem.SliceBuffer(append(head, tail...))), nil
}
