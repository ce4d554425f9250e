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

	mu    sync.Mutex
	count int
	peers map[string]int
}

func newOwnStreams(l Limits, r *refusals) *ownStreams {
	return &ownStreams{most: l.MaxHealthStreams, mostPerPeer: l.MaxHealthStreamsPerPeer, refusals: r, peers: map[string]int{}}
}

// begin counts a stream of the peer, for end to take back, or says why there can't be another: RESOURCE_EXHAUSTED.
func (o *ownStreams) begin(peer string) error {
	err := o.add(peer)
	if err == nil {
		return nil
	}
	o.refusals.add(healthStreams, peer, err)
	return status.Error(codes.ResourceExhausted, err.Error()+"; end one, or try again later")
}

func (o *ownStreams) add(peer string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.peers[peer] >= o.mostPerPeer:
		return fmt.Errorf("%s has %d streams of health and reflection already", peer, o.peers[peer])
	case o.count >= o.most:
		return fmt.Errorf("the daemon has %d streams of health and reflection already", o.count)
	}
	o.count++
	o.peers[peer]++
	return nil
}

func (o *ownStreams) end(peer string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count--
	if o.peers[peer]--; o.peers[peer] == 0 {
		delete(o.peers, peer)
	}
}

// errClosing is what the streams of gRPC's own services end with.
var errClosing = status.Error(codes.Unavailable, "the daemon goes down; try again later")

// endOwn counts the streams of health and reflection, and ends them when the server closes; they would go on until their clients
// end them.
func (s *Server) endOwn(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !strings.HasPrefix(info.FullMethod, "/grpc.") {
		return handler(srv, stream)
	}
	caller, _ := access.FromContext(stream.Context())
	if err := s.own.begin(caller.Peer); err != nil {
		return err
	}
	defer s.own.end(caller.Peer)
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
