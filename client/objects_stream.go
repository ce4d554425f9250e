package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// errUnknownObjectOp: podconfigd is newer than this package.
var errUnknownObjectOp = errors.New("an operation on objects came that this version doesn't know")

// objectStream is one subscription to objects; it collects messages until their cursor comes.
type objectStream struct {
	messages grpc.ServerStreamingClient[podconfigv1.WatchObjectsResponse]
	ctx      context.Context //nolint:containedctx // It says why the stream was given up.
	cancel   context.CancelCauseFunc
	silence  time.Duration
	watchdog *time.Timer
	pending  objectUnit
}

// objectUnit is what is applied as a whole.
type objectUnit struct {
	updates []*podconfigv1.ObjectUpdate
	synced  bool
	// tells is set if sources are all configured ones.
	tells   bool
	sources []*podconfigv1.SourceReadiness
	cursor  *podconfigv1.Cursor
}

func openObjects(
	ctx context.Context, api podconfigv1.PodConfigServiceClient, request *podconfigv1.WatchObjectsRequest, silence time.Duration,
) (*objectStream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	messages, err := api.WatchObjects(ctx, request)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s := &objectStream{messages: messages, ctx: ctx, cancel: cancel, silence: silence}
	s.watchdog = time.AfterFunc(silence, func() { cancel(fmt.Errorf("%w for %v", stream.ErrSilent, silence)) })
	s.watchdog.Stop()
	return s, nil
}

func (s *objectStream) close() {
	s.watchdog.Stop()
	s.cancel(nil)
}

// next waits for the next whole unit.
func (s *objectStream) next() (*objectUnit, error) {
	for {
		msg, err := s.receive()
		if err != nil {
			return nil, err
		}
		heartbeat := false
		switch event := msg.GetEvent().(type) {
		case *podconfigv1.WatchObjectsResponse_Update:
			op := event.Update.GetOp()
			if _, ok := podconfigv1.ObjectOperation_name[int32(op)]; !ok || op == podconfigv1.ObjectOperation_OBJECT_OPERATION_UNSPECIFIED {
				return nil, fmt.Errorf("%w: %d", errUnknownObjectOp, op)
			}
			s.pending.updates = append(s.pending.updates, event.Update)
		case *podconfigv1.WatchObjectsResponse_Synced:
			s.pending.synced, s.pending.tells, s.pending.sources = true, true, event.Synced.GetSources()
		case *podconfigv1.WatchObjectsResponse_Heartbeat:
			if msg.GetCursor() == nil && len(s.pending.updates) > 0 {
				// Amid a revision it is a sign of life.
				continue
			}
			heartbeat = true
			s.pending.tells, s.pending.sources = true, event.Heartbeat.GetSources()
		}
		if msg.GetContinued() || msg.GetCursor() == nil && !heartbeat {
			continue
		}
		unit := s.pending
		unit.cursor = msg.GetCursor()
		s.pending = objectUnit{}
		return &unit, nil
	}
}

// receive waits for a message. Only podconfigd's silence is counted, not the time that the consumer takes between two calls.
func (s *objectStream) receive() (*podconfigv1.WatchObjectsResponse, error) {
	s.watchdog.Reset(s.silence)
	defer s.watchdog.Stop()
	msg, err := s.messages.Recv()
	switch {
	case err == nil:
		return msg, nil
	case context.Cause(s.ctx) != nil:
		return nil, context.Cause(s.ctx)
	case errors.Is(err, io.EOF):
		return nil, stream.ErrEnded
	}
	return nil, err
}
