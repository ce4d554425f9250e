package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// replica is a podconfigd in memory. It counts its streams of pods.
type replica struct {
	podconfigv1.PodConfigServiceServer
	hub    *mergesvc.Hub
	health *health.Server

	mu      sync.Mutex
	svc     *service.Server
	l       *bufconn.Listener
	end     func()
	streams int
}

func newReplica() *replica {
	r := &replica{health: health.NewServer()}
	r.replace(nil)
	return r
}

// replace makes it another podconfigd, without a history, which gets the sets.
func (r *replica) replace(sets map[string]manifest.Set) {
	r.hub = mergesvc.NewHub(mergesvc.Config{Sources: sourcesOf(sourceNames), Revisions: 3, Tombstones: 3})
	for _, s := range sets {
		r.hub.Apply(s)
	}
}

func (r *replica) up() {
	svc := service.New(service.Config{History: r.hub.History(), Sources: r.hub.Sources})
	server := grpc.NewServer(grpc.ForceServerCodecV2(wire.NewCodec()), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	podconfigv1.RegisterPodConfigServiceServer(server, r)
	healthv1.RegisterHealthServer(server, r.health)
	r.health.SetServingStatus("podconfigd.sources", healthv1.HealthCheckResponse_SERVING)
	l, ended := bufconn.Listen(1<<20), make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.svc = svc
	r.l, r.end = l, func() {
		svc.Close()
		server.Stop()
		<-ended
	}
}

func (r *replica) down() {
	r.mu.Lock()
	end := r.end
	r.l, r.end = nil, nil
	r.mu.Unlock()
	if end != nil {
		end()
	}
}

func (r *replica) WatchPodUpdates(req *podconfigv1.WatchPodUpdatesRequest, s serverStream) error {
	svc := r.count(1)
	defer r.count(-1)
	return svc.WatchPodUpdates(req, permitted{s})
}

// permitted is a stream whose caller is an operator.
type permitted struct{ serverStream }

func (p permitted) Context() context.Context {
	return access.NewContext(p.serverStream.Context(), access.Caller{Role: access.Operator})
}

// count counts a stream that begins or ends, and returns the service that serves now.
func (r *replica) count(n int) *service.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams += n
	return r.svc
}

func (r *replica) serves() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams > 0
}

func (r *replica) dial(ctx context.Context) (net.Conn, error) {
	r.mu.Lock()
	l := r.l
	r.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	return l.DialContext(ctx)
}
