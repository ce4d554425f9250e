package grpcserver

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
)

// ownStreams counts the streams of gRPC's own services, health and reflection.
type ownStreams struct {
	most, mostPerPeer int
	refusals          *refusals

	mu sync.Mutex
	// count is their number, and weak that of callers that are neither consumers nor operators.
	count, weak int
	peers       map[holder]int
}

func newOwnStreams(l Limits, r *refusals) *ownStreams {
	return &ownStreams{most: l.MaxHealthStreams, mostPerPeer: l.MaxHealthStreamsPerPeer, refusals: r, peers: map[holder]int{}}
}

// begin counts a stream of the peer until end is called, or returns RESOURCE_EXHAUSTED.
func (o *ownStreams) begin(peer holder) error {
	err := o.add(peer)
	if err == nil {
		return nil
	}
	o.refusals.add(healthStreams, peer.String(), err)
	return status.Error(codes.ResourceExhausted, err.Error()+"; end one, or try again later")
}

func (o *ownStreams) add(peer holder) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.peers[peer] >= o.mostPerPeer:
		return fmt.Errorf("%v has %d streams of health and reflection already", peer, o.peers[peer])
	case o.count >= o.most || peer.weak && o.weak >= o.most-o.most/4:
		return fmt.Errorf("the daemon has %d streams of health and reflection already", o.count)
	}
	o.count++
	if peer.weak {
		o.weak++
	}
	o.peers[peer]++
	return nil
}

func (o *ownStreams) end(peer holder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count--
	if peer.weak {
		o.weak--
	}
	if o.peers[peer]--; o.peers[peer] == 0 {
		delete(o.peers, peer)
	}
}

// errClosing is what the streams of gRPC's own services end with.
var errClosing = status.Error(codes.Unavailable, "the daemon is shutting down; try again later")

// endOwn counts the streams of health and reflection, and ends them when the server closes; otherwise only their
// clients would end them.
func (s *Server) endOwn(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !strings.HasPrefix(info.FullMethod, "/grpc.") {
		return handler(srv, stream)
	}
	return s.serveOwn(srv, stream, handler)
}

// serveOwn is endOwn for a stream of health or reflection. It is a function of its own because the stack of every other
// stream has endOwn's frame as long as the stream lasts.
func (s *Server) serveOwn(srv any, stream grpc.ServerStream, handler grpc.StreamHandler) error {
	caller, _ := access.FromContext(stream.Context())
	peer := holderOf(caller)
	if err := s.own.begin(peer); err != nil {
		return err
	}
	defer s.own.end(peer)
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

// endingStream is a stream whose handler returns when the context ends.
type endingStream struct {
	grpc.ServerStream
	context context.Context //nolint:containedctx // It is what the interface asks for.
	// serving is the last status that a Watch of health sent.
	serving bool
}

func (s *endingStream) Context() context.Context { return s.context }

func (s *endingStream) SendMsg(m any) error {
	if r, ok := m.(*healthv1.HealthCheckResponse); ok {
		s.serving = r.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg may return before its goroutine: that ends with the stream, once the handler has returned.
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
