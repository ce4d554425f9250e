package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The errors by which a Stream ends, beside gRPC's and those of its context.
var (
	// ErrEnded: podconfigd ended the stream without an error.
	ErrEnded = errors.New("the stream ended")
	// ErrSilent: no message arrived for Config.Silence.
	ErrSilent = errors.New("no message")
	// ErrUnknownOp: podconfigd is newer than this package. Subscribe again in NOTIFICATION_MODE_SNAPSHOT; to objects,
	// after HeldObjects.Anew.
	ErrUnknownOp = errors.New("unknown operation")
	// ErrTooLarge: a revision exceeds MaxRevisionBytes before its end. Use another podconfigd.
	ErrTooLarge = errors.New("a revision is too large")
	// ErrUnfinished: nothing but heartbeats came within a revision for Patience. Use another podconfigd.
	ErrUnfinished = errors.New("a revision isn't completed")
)

// Config configures Open.
type Config struct {
	// API is the service. It is required.
	API podconfigv1.PodConfigServiceClient
	// Request selects the pods and the start position. Nil means all pods, from the current state on.
	Request *podconfigv1.WatchPodUpdatesRequest
	// Silence is how long Next waits for a message. Use a few times the Request's heartbeat interval. Zero means no
	// limit.
	Silence time.Duration
	// MaxRevisionBytes bounds the messages of one revision, which are kept until its last one arrives. Each message, and
	// each pod in it, counts as 256 bytes more than its encoding. Zero means no limit.
	MaxRevisionBytes int
	// Patience is how long a revision may stay incomplete while only heartbeats arrive. Zero means no limit.
	Patience time.Duration
	// Pace bounds the rate of SETs and lists of sources. Nil means no bound.
	Pace *Pace
}

// Stream is one subscription. It is not safe for concurrent use.
type Stream struct {
	messages *subscription[podconfigv1.WatchPodUpdatesResponse]
	pending  Revision
	unit     unit
}

// Open subscribes. The Stream ends with ctx. The error of a podconfigd that can't be reached comes from Open or from
// the first Next.
func Open(ctx context.Context, cfg Config) (*Stream, error) {
	if cfg.Request == nil {
		cfg.Request = &podconfigv1.WatchPodUpdatesRequest{}
	}
	call := func(ctx context.Context) (grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse], error) {
		return cfg.API.WatchPodUpdates(ctx, cfg.Request)
	}
	messages, err := subscribe(ctx, cfg.Silence, call)
	if err != nil {
		return nil, err
	}
	return &Stream{messages: messages, unit: unit{limit: cfg.MaxRevisionBytes, patience: cfg.Patience, pace: cfg.Pace}}, nil
}

// Close ends the subscription.
func (s *Stream) Close() { s.messages.close() }

// Next waits for the next whole revision, end of the initial state, or heartbeat. Its error is ErrEnded, ErrSilent,
// ErrUnknownOp, ErrTooLarge, ErrUnfinished, the context's or gRPC's; an incomplete revision is dropped. The Stream has ended
// then: don't call Next again.
func (s *Stream) Next() (*Revision, error) {
	for {
		msg, err := s.messages.receive()
		if err != nil {
			return nil, err
		}
		switch event := msg.GetEvent().(type) {
		case *podconfigv1.WatchPodUpdatesResponse_Update:
			if op := event.Update.GetOp(); !known(op) {
				return nil, fmt.Errorf("%w: %d", ErrUnknownOp, op)
			}
			s.pending.add(event.Update)
		case *podconfigv1.WatchPodUpdatesResponse_Synced:
			s.pending.Synced = event.Synced
		case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
			if msg.GetCursor() == nil && len(s.pending.Updates) > 0 {
				// Within a revision it only shows that the stream is alive: the end of the revision lists the sources
				// again.
				if err := s.unit.heartbeat(s.messages.ctx); err != nil {
					return nil, err
				}
				continue
			}
			s.pending.Heartbeat = event.Heartbeat
		}
		if err := s.unit.add(proto.Size(msg), len(msg.GetUpdate().GetPods())); err != nil {
			return nil, err
		}
		whole := msg.GetCursor() != nil || s.pending.Synced != nil || s.pending.Heartbeat != nil
		if msg.GetContinued() || !whole {
			continue
		}
		revision := s.pending
		revision.Cursor = msg.GetCursor()
		s.pending = Revision{}
		if err := s.unit.end(s.messages.ctx, revision.listsSources() || revision.hasSet()); err != nil {
			return nil, err
		}
		return &revision, nil
	}
}

func known(op podconfigv1.PodOperation) bool {
	_, ok := podconfigv1.PodOperation_name[int32(op)]
	return ok && op != podconfigv1.PodOperation_POD_OPERATION_UNSPECIFIED
}
