package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// How a Stream ends, beside gRPC's own errors and those of its context.
var (
	// ErrEnded: podconfigd closed the stream in good order.
	ErrEnded = errors.New("the stream was ended")
	// ErrSilent: nothing came for longer than Config.Silence.
	ErrSilent = errors.New("no sign of life")
	// ErrUnknownOp: podconfigd is newer than this package. The contract asks to subscribe again in NOTIFICATION_MODE_SNAPSHOT; to
	// objects, with HeldObjects.Anew.
	ErrUnknownOp = errors.New("an operation came that this version doesn't know")
)

// Config says what to subscribe to, and where.
type Config struct {
	// API is the service. It is required.
	API podconfigv1.PodConfigServiceClient
	// Request is what to ask for. Nil: everything, from the current state on.
	Request *podconfigv1.WatchPodUpdatesRequest
	// Silence is how long Next waits for a message; it should be a few times Request's heartbeat interval. Zero: for ever.
	Silence time.Duration
}

// Stream is one subscription. It is not safe for concurrent use.
type Stream struct {
	messages *subscription[podconfigv1.WatchPodUpdatesResponse]
	pending  Revision
}

// Open subscribes. ctx ends the Stream. A podconfigd that can't be reached may show here or in the first Next.
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
	return &Stream{messages: messages}, nil
}

// Close ends the subscription.
func (s *Stream) Close() { s.messages.close() }

// Next waits for the next whole revision, the end of the initial state, or a heartbeat. Its error says how the Stream ended: with
// one of this package, with the context's, or with gRPC's; what had come of a revision by then is dropped. Call no Next after it.
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
				// Amid a revision it is a sign of life; what it says of the sources, the revision's end says again.
				continue
			}
			s.pending.Heartbeat = event.Heartbeat
		}
		whole := msg.GetCursor() != nil || s.pending.Synced != nil || s.pending.Heartbeat != nil
		if msg.GetContinued() || !whole {
			continue
		}
		revision := s.pending
		revision.Cursor = msg.GetCursor()
		s.pending = Revision{}
		return &revision, nil
	}
}

func known(op podconfigv1.PodOperation) bool {
	_, ok := podconfigv1.PodOperation_name[int32(op)]
	return ok && op != podconfigv1.PodOperation_POD_OPERATION_UNSPECIFIED
}
