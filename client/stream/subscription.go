package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
)

// subscription is a streaming call with a limit for its silence.
type subscription[M any] struct {
	messages grpc.ServerStreamingClient[M]
	ctx      context.Context //nolint:containedctx // It says why the stream was given up.
	cancel   context.CancelCauseFunc
	silence  time.Duration
	watchdog *time.Timer // nil if silence is zero
}

// subscribe makes the call, which may wait for a connection, and for a server that doesn't read: that counts as silence, too.
// The subscription ends with ctx.
func subscribe[M any](
	ctx context.Context, silence time.Duration, call func(context.Context) (grpc.ServerStreamingClient[M], error),
) (*subscription[M], error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &subscription[M]{ctx: ctx, cancel: cancel, silence: silence}
	if silence > 0 {
		s.watchdog = time.AfterFunc(silence, func() { cancel(fmt.Errorf("%w for %v", ErrSilent, silence)) })
		defer s.watchdog.Stop()
	}
	var err error
	if s.messages, err = call(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	return s, nil
}

func (s *subscription[M]) close() {
	if s.watchdog != nil {
		s.watchdog.Stop()
	}
	s.cancel(nil)
}

// receive waits for a message. Only the time within receive counts as silence, not the consumer's time between two
// calls.
func (s *subscription[M]) receive() (*M, error) {
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
