package service_test

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// callerHeader names the caller of a call.
const callerHeader = "test-caller"

// callers replaces the access rules: the header names one of the known callers.
type callers struct {
	mu    sync.Mutex
	known []access.Caller
}

func (c *callers) add(caller access.Caller) (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = append(c.known, caller)
	return strconv.Itoa(len(c.known) - 1)
}

func (c *callers) context(ctx context.Context) context.Context {
	names := metadata.ValueFromIncomingContext(ctx, callerHeader)
	if len(names) == 0 {
		return ctx
	}
	i, err := strconv.Atoi(names[0])
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return access.NewContext(ctx, c.known[i])
}

func (c *callers) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(c.context(ctx), req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(srv, calledStream{s, c.context(s.Context())})
		}),
	}
}

type calledStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s calledStream) Context() context.Context { return s.ctx }

// as returns the node as another caller uses it.
func (n *node) as(caller access.Caller) *node {
	n.t.Helper()
	name := n.callers.add(caller)
	named := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, callerHeader, name)
	}
	conn := dial(n.t, n.address,
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
			opts ...grpc.CallOption,
		) error {
			return invoke(named(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
			opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return open(named(ctx), desc, cc, method, opts...)
		}))
	return &node{
		t: n.t, hub: n.hub, svc: n.svc, api: podconfigv1.NewPodConfigServiceClient(conn), address: n.address, callers: n.callers,
		stop: n.stop,
	}
}
