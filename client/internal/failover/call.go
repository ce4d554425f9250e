package failover

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	l, err := c.get(ctx)
	if err != nil {
		return err
	}
	err = l.conn.Invoke(ctx, method, args, reply, opts...)
	if status.Code(err) == codes.Unavailable && l.conn.GetState() != connectivity.Ready {
		c.leave(l, err)
	}
	if ctx.Err() != nil {
		return err
	}
	return l.explain(err)
}

// NewStream implements grpc.ClientConnInterface.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	l, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	s := &clientStream{c: c, link: l, ctx: ctx, pods: method == podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName}
	if s.ClientStream, err = l.conn.NewStream(ctx, desc, method, opts...); err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

// explain returns a better error if the call ended because the client moved.
func (l *link) explain(err error) error {
	select {
	case <-l.moved:
		if code := status.Code(err); code == codes.Canceled || code == codes.Unavailable {
			return status.Errorf(codes.Unavailable, "the client moved from podconfigd at %s to another", l)
		}
	default:
	}
	return err
}

// clientStream is a stream whose failure may show that its server doesn't work.
type clientStream struct {
	grpc.ClientStream
	c    *Conn
	link *link
	ctx  context.Context //nolint:containedctx // It says why the stream ended.
	// pods is set for WatchPodUpdates, and received once a message has arrived.
	pods, received bool
}

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.received = true
		return nil
	}
	if errors.Is(err, io.EOF) {
		return err
	}
	return s.failed(err)
}

// failed leaves the server if the error shows that it doesn't work.
func (s *clientStream) failed(err error) error {
	if s.ctx.Err() != nil {
		if cause := context.Cause(s.ctx); errors.Is(cause, stream.ErrSilent) {
			s.c.failed(s.link, cause)
		}
		return err
	}
	if s.fatal(status.Code(err)) {
		s.c.failed(s.link, err)
	}
	return s.link.explain(err)
}

// fatal reports whether a stream that ended with this code shows that its server doesn't work for this client. A
// podconfigd may lack WatchObjects, or refuse it; one that refuses WatchPodUpdates is of no use.
func (s *clientStream) fatal(code codes.Code) bool {
	switch code {
	case codes.Unavailable:
		return true
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.InvalidArgument:
		return false
	default:
		return s.pods && !s.received
	}
}
