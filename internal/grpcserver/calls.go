package grpcserver

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/podstream/podstream/internal/access"
)

// handshaker registers the connections with the guard.
type handshaker struct {
	credentials.TransportCredentials
	guard *guard
}

// ServerHandshake is part of credentials.TransportCredentials. A handshake that waits for its turn has no goroutine of its own:
// strangers can have thousands of them wait.
func (h handshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if !raw.(*conn).listener.local() {
		return h.handshake(raw)
	}
	type result struct {
		conn net.Conn
		info credentials.AuthInfo
		err  error
	}
	r := apart(func() (r result) {
		r.conn, r.info, r.err = h.handshake(raw)
		return r
	})
	return r.conn, r.info, r.err
}

// apart returns what f returns, which it calls in a goroutine of its own. gRPC's goroutine of a connection, which lasts as long as the
// connection, runs its handshake and the tap of its calls: their depth would double its stack of 4 KiB for good.
func apart[T any](f func() T) T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return <-done
}

func (h handshaker) handshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	var c net.Conn
	var info credentials.AuthInfo
	err := h.guard.inTurn(raw.(*conn), func() (err error) {
		c, info, err = h.TransportCredentials.ServerHandshake(raw)
		return err
	})
	if err == nil {
		err = h.guard.introduce(raw.(*conn), info.(*access.AuthInfo))
	}
	if err != nil {
		why := handshake
		if errors.Is(err, errHandshakeQueue) {
			why = handshakes
		}
		h.guard.refusals.add(why, raw.(*conn).peer, err)
		return nil, nil, err
	}
	return c, info, nil
}

func (h handshaker) Clone() credentials.TransportCredentials {
	return handshaker{h.TransportCredentials.Clone(), h.guard}
}

// authorize is gRPC's tap.
func (s *Server) authorize(ctx context.Context, info *tap.Info) (context.Context, error) {
	type result struct {
		ctx context.Context //nolint:containedctx // It is that of the call, and only passes through.
		err error
	}
	r := apart(func() (r result) {
		r.ctx, r.err = s.begin(ctx, info)
		return r
	})
	return r.ctx, r.err
}

// begin counts the calls that the guard allows.
func (s *Server) begin(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx, err := s.guard.authorize(ctx, info)
	if err != nil {
		return ctx, err
	}
	caller, _ := access.FromContext(ctx)
	c := s.guard.find(authInfo(ctx))
	return s.calls.begin(ctx, caller, c != nil && c.owner, info.FullMethodName)
}

// authorize is part of gRPC's tap: it gets each call's header, also that of an unknown method, before any message is
// read. An interceptor would see a unary call only after up to MaxRequestBytes of it had been read, even for a caller
// without a role.
func (g *guard) authorize(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx, err := g.access.Authorize(ctx, info.FullMethodName)
	caller, _ := access.FromContext(ctx)
	why := noAccess
	if err == nil && caller.Role == access.None {
		why, err = callsWithoutRole, g.beginWithoutRole(ctx)
	}
	if err == nil {
		return ctx, nil
	}
	g.refusals.add(why, caller.Identity, errors.New(status.Convert(err).Message()))
	if who := authInfo(ctx); who != nil {
		g.denied(who)
	}
	return ctx, err
}

// beginWithoutRole counts a call until it ends, with a time limit: a call may never send its message.
func (g *guard) beginWithoutRole(ctx context.Context) error {
	c := g.find(authInfo(ctx))
	if c == nil {
		return status.Error(codes.Unavailable, "the connection has ended")
	}
	if c.calls.Add(1) > maxCallsWithoutRole {
		c.calls.Add(-1)
		return status.Errorf(codes.ResourceExhausted, "%d calls are under way already, which is all that a caller without a role may have", maxCallsWithoutRole)
	}
	context.AfterFunc(ctx, func() { c.calls.Add(-1) })
	return nil
}

// authInfo returns the AuthInfo of the call's connection, or nil if it isn't known.
func authInfo(ctx context.Context) *access.AuthInfo {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	who, _ := p.AuthInfo.(*access.AuthInfo)
	return who
}

// connectionContexts ends the contexts of all calls with their connection. gRPC doesn't end the context of a call
// that the tap denied, so a long deadline would outlive the caller. It also counts the calls whose handlers run.
type connectionContexts struct{ running *running }

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

func (c connectionContexts) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.Begin:
		c.running.calls.Add(1)
	case *stats.End:
		if c.running.calls.Add(-1) == 0 {
			c.running.signalIdle()
		}
	}
}
