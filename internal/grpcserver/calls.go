package grpcserver

import (
	"context"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/podstream/podstream/internal/access"
)

// handshaker introduces the connections to the guard.
type handshaker struct {
	credentials.TransportCredentials
	guard *guard
}

func (h handshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err == nil {
		err = h.guard.introduce(raw.(*conn), info.(*access.AuthInfo))
	}
	if err != nil {
		h.guard.refusals.add(handshake, raw.(*conn).peer, err)
		return nil, nil, err
	}
	return c, info, nil
}

func (h handshaker) Clone() credentials.TransportCredentials {
	return handshaker{h.TransportCredentials.Clone(), h.guard}
}

// authorize is gRPC's tap: it sees each call's header, also that of an unknown method, before any message is read. An interceptor
// would see a unary call only after up to MaxRequestBytes of it had been read for somebody who has no role.
func (g *guard) authorize(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx, err := g.access.Authorize(ctx, info.FullMethodName)
	if err == nil {
		return ctx, nil
	}
	caller, _ := access.FromContext(ctx)
	g.refusals.add(noAccess, caller.Identity, errors.New(status.Convert(err).Message()))
	if p, ok := peer.FromContext(ctx); ok {
		if who, ok := p.AuthInfo.(*access.AuthInfo); ok {
			g.denied(who)
		}
	}
	return ctx, err
}

// connectionContexts ends the contexts of all calls with their connection. gRPC doesn't end that of a call that the tap denied, so
// a far deadline would be kept long after the caller is gone.
type connectionContexts struct{}

type cancelKey struct{}

func (connectionContexts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

func (connectionContexts) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); !ok {
		return
	}
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

func (connectionContexts) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}

func (connectionContexts) HandleRPC(context.Context, stats.RPCStats) {}

// errClosing is what the streams of gRPC's own services end with.
var errClosing = status.Error(codes.Unavailable, "the daemon goes down; try again later")

// endOwn ends the streams of health and reflection when the server closes; they would go on until their clients end them.
func (s *Server) endOwn(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !strings.HasPrefix(info.FullMethod, "/grpc.") {
		return handler(srv, stream)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	ending := &endingStream{ServerStream: stream, context: ctx}
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := handler(srv, ending)
	select {
	case <-s.closing:
	default:
		return err
	}
	if ending.serving {
		_ = stream.SendMsg(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING})
	}
	return errClosing
}

// endingStream is a stream that its handler leaves once the context ends.
type endingStream struct {
	grpc.ServerStream
	context context.Context //nolint:containedctx // It is what the interface asks for.
	// serving is the last that a Watch of health told.
	serving bool
}

func (s *endingStream) Context() context.Context { return s.context }

func (s *endingStream) SendMsg(m any) error {
	if r, ok := m.(*healthv1.HealthCheckResponse); ok {
		s.serving = r.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg leaves its goroutine behind when the context ends: it ends with the stream, as soon as the handler has returned.
func (s *endingStream) RecvMsg(m any) error {
	received := make(chan error, 1)
	go func() { received <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-received:
		return err
	case <-s.context.Done():
		return errClosing
	}
}
