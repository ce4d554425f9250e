package grpcserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
)

// underWay bounds each peer's calls under way, and the time for sending a request. A call costs buffers before its
// request is complete, and the request before any service can check it.
type underWay struct {
	limits   Limits
	refusals *refusals
	// unary reports whether a method is unary. It is set before the server serves.
	unary map[string]bool

	mu sync.Mutex
	// calls are all calls under way, and unaryCalls the unary ones among them.
	calls, unaryCalls *shares
	// receiving has, for each peer with calls under way, a token for each stream whose request is being received.
	receiving map[holder]chan struct{}
}

func newUnderWay(l Limits, r *refusals) *underWay {
	return &underWay{
		limits: l, refusals: r, unary: map[string]bool{},
		calls: newShares(l.MaxCallsPerPeer), unaryCalls: newShares(l.MaxUnaryCallsPerPeer), receiving: map[holder]chan struct{}{},
	}
}

// register records which methods are unary.
func (u *underWay) register(services map[string]grpc.ServiceInfo) {
	for name, service := range services {
		for _, m := range service.Methods {
			u.unary["/"+name+"/"+m.Name] = !m.IsClientStream && !m.IsServerStream
		}
	}
}

// request is the time limit of a call's request.
type request struct {
	timeout time.Duration
	cancel  context.CancelCauseFunc
	timer   *time.Timer
}

// start starts the time limit. It is called once, before received.
func (r *request) start() {
	r.timer = time.AfterFunc(r.timeout, func() { r.cancel(fmt.Errorf("the request didn't arrive within %v", r.timeout)) })
}

// received ends the time limit. The timer doesn't stay in memory for a stream.
func (r *request) received() {
	r.timer.Stop()
	r.timer = nil
}

type requestKey struct{}

// begin counts a call until its context ends, or refuses it with RESOURCE_EXHAUSTED. The returned context ends if the
// request isn't complete in time. The time of a unary call's request starts here, that of a stream's when the stream
// has its token.
func (u *underWay) begin(ctx context.Context, caller access.Caller, owner bool, method string) (context.Context, error) {
	unary, peer := u.unary[method], holderOf(caller)
	if err := u.add(peer, owner, unary); err != nil {
		u.refusals.add(callsPerPeer, peer.String(), err)
		return ctx, status.Error(codes.ResourceExhausted, err.Error()+"; end one, or try again later")
	}
	ended := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{timeout: u.limits.RequestTimeout, cancel: cancel}
	stop := func() bool { return true }
	if unary {
		r.start()
		stop = r.timer.Stop
	}
	context.AfterFunc(ended, func() {
		stop()
		cancel(nil)
		u.end(peer, unary)
	})
	return context.WithValue(ctx, requestKey{}, r), nil
}

func (u *underWay) add(peer holder, owner, unary bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !owner {
		if err := u.calls.check(peer, "calls under way"); err != nil {
			return err
		}
		if err := u.unaryCalls.check(peer, "unary calls under way"); unary && err != nil {
			return err
		}
	}
	u.calls.add(peer, 1)
	if unary {
		u.unaryCalls.add(peer, 1)
	}
	if u.receiving[peer] == nil {
		u.receiving[peer] = make(chan struct{}, u.limits.MaxReceivingPerPeer)
	}
	return nil
}

func (u *underWay) end(peer holder, unary bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls.add(peer, -1)
	if unary {
		u.unaryCalls.add(peer, -1)
	}
	if u.calls.held[peer] == 0 {
		delete(u.receiving, peer)
	}
}

func (u *underWay) interceptUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		r.received()
	}
	if err := checkDecoded(req); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (u *underWay) interceptStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(srv, &receivingStream{ServerStream: stream, underWay: u})
}

// receivingStream receives its first request when it has a token of its peer.
type receivingStream struct {
	grpc.ServerStream
	underWay *underWay
	begun    bool
}

func (s *receivingStream) RecvMsg(m any) error {
	if s.begun {
		return s.ServerStream.RecvMsg(m)
	}
	ctx := s.Context()
	caller, _ := access.FromContext(ctx)
	r, ok := ctx.Value(requestKey{}).(*request)
	tokens := s.underWay.tokens(holderOf(caller))
	if tokens == nil || !ok {
		return s.ServerStream.RecvMsg(m)
	}
	select {
	case tokens <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-tokens }()
	r.start()
	defer r.received()
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.begun = true
	return checkDecoded(m)
}

func (u *underWay) tokens(peer holder) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.receiving[peer]
}
