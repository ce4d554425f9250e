package bench

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/bench/workload"
)

// manyCallers are the limits of a server whose consumers all belong to one user.
var manyCallers = grpcserver.Limits{MaxConnections: 1 << 20, MaxConnectionsPerPeer: 1 << 20, RequestsPerSecond: 1 << 20}

// podstream is the product: podconfigd without its sources.
type podstream struct {
	hub *mergesvc.Hub
	set manifest.Set
	// turn counts the publications. versions are the origins that are published in turn, created when they are
	// first needed, unless fresh is set.
	turn     int
	fresh    bool
	nodes    int
	versions map[version]*manifest.Origin
}

type version struct{ pod, number, size int }

func newProduct(cfg serverConfig) (*podstream, error) {
	log := slog.New(slog.DiscardHandler)
	counts := metrics.New()
	hubConfig := mergesvc.Config{
		Sources: []merge.Source{{Name: workload.Source}}, Revisions: cfg.Revisions, Logger: log, Metrics: counts,
	}
	if cfg.Store != "" {
		hubConfig.Store = &store.Config{Path: cfg.Store, NoSync: true, Logger: log}
	}
	hub := mergesvc.NewHub(hubConfig)
	svc := service.New(service.Config{
		History: hub.History(), Sources: hub.Sources, MaxConsumers: 1 << 20, Logger: log, Metrics: counts,
	})
	registry := daemon.NewRegistry()
	registry.MustRegister(hub, svc, counts)
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) },
		Closing:  svc.Close, Limits: manyCallers, Logger: log, Metrics: registry,
		Quiet:         []string{podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName},
		ServerOptions: []grpc.ServerOption{grpc.ForceServerCodecV2(wire.NewCodec())},
	})
	listeners, err := grpcserver.Listen([]string{"unix://" + cfg.Socket})
	if err != nil {
		return nil, err
	}
	p := &podstream{hub: hub, set: manifest.Set{Source: workload.Source}, fresh: cfg.Fresh, nodes: cfg.Nodes, versions: map[version]*manifest.Origin{}}
	for pod := range cfg.Pods {
		p.set.Origins = append(p.set.Origins, p.origin(version{pod, 1, cfg.Size}))
	}
	p.apply()
	// These goroutines end with the process.
	go hub.Run(context.Background())
	go svc.Run(context.Background())
	go func() { _ = server.Serve(context.Background(), listeners) }()
	return p, nil
}

func (p *podstream) publish(size int) {
	pod, round := p.turn%len(p.set.Origins), p.turn/len(p.set.Origins)
	p.turn++
	p.set.Origins[pod] = p.origin(version{pod, round % 2, size})
	p.apply()
}

func (p *podstream) apply() {
	p.set.ReadTime = time.Now()
	p.hub.Apply(p.set)
}

func (p *podstream) origin(v version) *manifest.Origin {
	if p.fresh {
		return p.create(v)
	}
	if p.versions[v] == nil {
		p.versions[v] = p.create(v)
	}
	return p.versions[v]
}

func (p *podstream) create(v version) *manifest.Origin {
	pod := workload.Sized(v.pod, v.number, v.size)
	if p.nodes > 0 {
		pod.Spec.NodeName = nodeName(v.pod % p.nodes)
	}
	return workload.Origin(pod)
}

func nodeName(n int) string { return fmt.Sprintf("node-%04d", n) }
