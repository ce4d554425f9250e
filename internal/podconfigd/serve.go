package podconfigd

import (
	"context"
	"io"
	"log/slog"
	"os/signal"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// storeFile is the store's name in --root-dir.
const storeFile = "podconfigd.db"

// serve wires the sources to the hub and the hub to the service, and runs them until ctx ends.
func serve(ctx context.Context, opts *Options, stderr io.Writer, extras []Extra) error {
	defer signal.Stop(opts.hup)
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
	page, err := daemon.ListenMetrics(opts.MetricsAddress)
	if err != nil {
		return err
	}
	if page != nil {
		defer func() { _ = page.Close() }() // Who serves it closes it too.
		log.Info("metrics are served", "address", page.Addr().String())
	}
	tracers, flush, err := opts.tracing.Provider(ctx, "podconfigd")
	if err != nil {
		return err
	}
	defer flush()
	counts := metrics.New()
	var health healthOfStore
	hub := mergesvc.NewHub(mergesvc.Config{
		Sources: opts.mergeSources(opts.plan), Store: &store.Config{Path: filepath.Join(opts.RootDir, storeFile), Logger: log},
		Durable: health.set, Logger: log, Metrics: counts, Tracer: tracers.Tracer("podconfigd"),
	})
	objs := objects.New(objects.Config{History: hub.History(), Merge: hub.Apply, Logger: log})
	own := &podconfigv1.RelayHop{Id: podconfigdID(opts.RootDir, log), Node: opts.node}
	sup := newSupervisor(opts, own.GetId(), hub, objs, log)
	svc := service.New(service.Config{
		History: hub.History(), Objects: objs, Preview: hub.Preview, Parse: sup.parseManifest,
		Sources: func() []merge.SourceState { return objs.WithFindings(hub.Sources()) },
		Path:    func() []*podconfigv1.RelayHop { return sup.path(own) }, SourcePath: sup.sourcePath,
		MaxConsumers: opts.maxConsumers, Logger: log, Metrics: counts, Tracer: tracers.Tracer("podconfigd"),
	})
	registry := daemon.NewRegistry()
	reloads := newReloadMetrics()
	registry.MustRegister(hub, svc, counts, reloads)
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) },
		Closing:  svc.Close, Access: rules, Limits: limits, Logger: log, Metrics: registry,
		Quiet: []string{
			podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName, podconfigv1.PodConfigService_WatchObjects_FullMethodName,
		},
		ServerOptions: append(opts.tracing.ServerOptions(tracers), grpc.ForceServerCodecV2(wire.NewCodec())),
	})
	health.tell(func(good bool) { server.SetHealth(storeHealth, good) })
	// The hub outlives those who use it: what is published last is stored still.
	stopHub := inBackground(context.WithoutCancel(ctx), hub.Run)
	defer stopHub()
	group, ctx := errgroup.WithContext(ctx)
	watch := newConfigWatch(opts.config, opts.pollTime, log)
	reload := &reloader{
		opts: opts, sup: sup, hup: opts.hup, look: watch.look, poll: watch.poll, metrics: reloads, log: log,
		settling: settling{settle: settleTime, limit: restlessTime},
	}
	group.Go(func() error { return reload.run(ctx) })
	group.Go(func() error {
		watch.run(ctx)
		return nil
	})
	group.Go(func() error {
		objs.Run(ctx)
		return nil
	})
	for _, extra := range extras {
		group.Go(func() error {
			return extra.Run(ctx, Hub{Apply: objs.Apply, Configure: hub.Configure, Published: published(hub)})
		})
	}
	group.Go(func() error {
		svc.Run(ctx)
		return nil
	})
	group.Go(func() error { return server.Serve(ctx, listeners) })
	group.Go(func() error { return daemon.ServeMetricsOn(ctx, page, registry) })
	err = group.Wait()
	log.Info("podconfigd is down")
	return err
}

// newSupervisor makes the one that feeds both hubs.
func newSupervisor(opts *Options, id string, hub *mergesvc.Hub, objs *objects.Hub, log *slog.Logger) *supervisor {
	b := &builder{id: id, node: opts.node, fileQuietPeriod: opts.fileQuietPeriod, history: hub.History(), log: log}
	s := &supervisor{
		node: opts.node, build: b.build, configure: hub.Configure, configured: opts.mergeSources, apply: objs.Apply, forget: objs.Forget,
		follow: func(ctx context.Context, source string, of sources.ObjectSource) error {
			return objs.Follow(ctx, source, of.RunObjects)
		},
		log: log,
	}
	s.plan.Store(opts.plan)
	return s
}

// podconfigdID is the id by which podconfigds that relay each other know this one. A disk that can't keep it doesn't keep podconfigd
// from starting.
func podconfigdID(rootDir string, log *slog.Logger) string {
	id, err := daemon.ID(rootDir, "podconfigd-id")
	if err != nil {
		id = uuid.NewString()
		log.Error("podconfigd has an id for this run only", "id", id, "err", err)
	}
	return id
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
