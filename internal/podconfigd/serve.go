package podconfigd

import (
	"context"
	"io"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	"github.com/podstream/podstream/internal/sources/file"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// storeFile is the store's name in --root-dir.
const storeFile = "podconfigd.db"

// serve wires the sources to the hub and the hub to the service, and runs them until ctx ends.
func serve(ctx context.Context, opts *Options, stderr io.Writer, extras []Extra) error {
	log, err := opts.Logger(stderr)
	if err != nil {
		return err
	}
	who, limits, err := opts.Access()
	if err != nil {
		return err
	}
	who.Logger, who.MinimumRole = log, minimumRole
	rules, err := access.New(who)
	if err != nil {
		return err
	}
	release, err := daemon.LockRootDir(opts.RootDir)
	if err != nil {
		return err
	}
	defer release()
	listeners, err := grpcserver.ListenFor(rules, opts.Listen)
	if err != nil {
		return err
	}
	tracers, flush, err := opts.tracing.Provider(ctx, "podconfigd")
	if err != nil {
		return err
	}
	defer flush()
	counts := metrics.New()
	var health healthOfStore
	hub := mergesvc.NewHub(mergesvc.Config{
		Sources: opts.sources(), Store: &store.Config{Path: filepath.Join(opts.RootDir, storeFile), Logger: log},
		Durable: health.set, Logger: log, Metrics: counts, Tracer: tracers.Tracer("podconfigd"),
	})
	svc := service.New(service.Config{
		History: hub.History(), Sources: hub.Sources, Preview: hub.Preview, Parse: opts.parseManifest,
		MaxConsumers: opts.maxConsumers, Logger: log, Metrics: counts, Tracer: tracers.Tracer("podconfigd"),
	})
	registry := daemon.NewRegistry()
	registry.MustRegister(hub, svc, counts)
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) },
		Closing:  svc.Close, Access: rules, Limits: limits, Logger: log, Metrics: registry,
		Quiet:         []string{podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName},
		ServerOptions: append(opts.tracing.ServerOptions(tracers), grpc.ForceServerCodecV2(wire.NewCodec())),
	})
	health.tell(func(good bool) { server.SetHealth(storeHealth, good) })
	// The hub outlives those who use it: what is published last is stored still.
	stopHub := inBackground(context.WithoutCancel(ctx), hub.Run)
	defer stopHub()
	group, ctx := errgroup.WithContext(ctx)
	for _, src := range opts.files {
		source := file.New(file.Config{
			Name: src.Name, Path: src.Location, Node: opts.node, Strict: opts.strict,
			CheckFrequency: opts.fileCheckFrequency, QuietPeriod: opts.fileQuietPeriod, Logger: log,
		})
		group.Go(func() error { return source.Run(ctx, hub.Apply) })
	}
	for _, extra := range extras {
		group.Go(func() error { return extra.Run(ctx, Hub{Apply: hub.Apply, Published: published(hub)}) })
	}
	group.Go(func() error {
		svc.Run(ctx)
		return nil
	})
	group.Go(func() error { return server.Serve(ctx, listeners) })
	group.Go(func() error { return daemon.ServeMetrics(ctx, opts.MetricsAddress, registry) })
	log.Info("podconfigd is up", "node", opts.node, "sources", len(opts.sources()))
	err = group.Wait()
	log.Info("podconfigd is down")
	return err
}

// storeHealth is what the store is called in grpc.health.v1: NOT_SERVING while podconfigd serves from memory.
const storeHealth = "podconfigd.store"

// healthOfStore hands the hub's word on to the server, which comes after the hub.
type healthOfStore struct {
	mu   sync.Mutex
	good bool
	to   func(bool)
}

func (h *healthOfStore) set(good bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.good = good
	if h.to != nil {
		h.to(good)
	}
}

func (h *healthOfStore) tell(to func(bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = to
	to(h.good)
}

// minimumRole is the least role that may call a method: inspectors look, consumers have the pods.
func minimumRole(method string) access.Role {
	switch method {
	case podconfigv1.PodConfigService_ReportApplied_FullMethodName, podconfigv1.PodConfigService_WatchObjects_FullMethodName,
		podconfigv1.PodConfigService_DiffManifests_FullMethodName:
		return access.Consumer
	default:
		return access.Inspector
	}
}

// inBackground runs run until it is stopped, and stop waits for its end.
func inBackground(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func published(hub *mergesvc.Hub) func() (string, uint64) {
	return func() (string, uint64) {
		st := hub.History().State()
		return st.Instance, st.Number
	}
}
