package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	// ErrUnknownOp: podconfigd is newer than this package. The contract asks to subscribe again in NOTIFICATION_MODE_SNAPSHOT.
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
	messages grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
	ctx      context.Context //nolint:containedctx // It says why the stream was given up.
	cancel   context.CancelCauseFunc
	silence  time.Duration
	watchdog *time.Timer // nil without Config.Silence
	pending  Revision
}

// Open subscribes. ctx ends the Stream. A podconfigd that can't be reached may show here or in the first Next.
func Open(ctx context.Context, cfg Config) (*Stream, error) {
	if cfg.Request == nil {
		cfg.Request = &podconfigv1.WatchPodUpdatesRequest{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	messages, err := cfg.API.WatchPodUpdates(ctx, cfg.Request)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s := &Stream{messages: messages, ctx: ctx, cancel: cancel, silence: cfg.Silence}
	if cfg.Silence > 0 {
		s.watchdog = time.AfterFunc(cfg.Silence, func() { cancel(fmt.Errorf("%w for %v", ErrSilent, cfg.Silence)) })
		s.watchdog.Stop()
	}
	return s, nil
}

// Close ends the subscription.
func (s *Stream) Close() {
	if s.watchdog != nil {
		s.watchdog.Stop()
	}
	s.cancel(nil)
}

// Next waits for the next whole revision, the end of the initial state, or a heartbeat. Its error says how the Stream ended: with
// one of this package, with the context's, or with gRPC's; what had come of a revision by then is dropped. Call no Next after it.
func (s *Stream) Next() (*Revision, error) {
	for {
		msg, err := s.receive()
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

// receive waits for a message. Only podconfigd's silence is counted, not the time that the consumer takes between two calls.
func (s *Stream) receive() (*podconfigv1.WatchPodUpdatesResponse, error) {
	if s.watchdog != nil {
		s.watchdog.Reset(s.silence)
		defer s.watchdog.Stop()
	}
	msg, err := s.messages.Recv()
	switch {
	case err == nil:
		return msg, nil
	case context.Cause(s.ctx) != nil:
		return nil, context.Cause(s.ctx)
	case errors.Is(err, io.EOF):
		return nil, ErrEnded
	}
	return nil, err
}

func known(op podconfigv1.PodOperation) bool {
	_, ok := podconfigv1.PodOperation_name[int32(op)]
	return ok && op != podconfigv1.PodOperation_POD_OPERATION_UNSPECIFIED
}
