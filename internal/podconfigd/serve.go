package podconfigd

import (
	"context"
	"io"
	"log/slog"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/daemon/systemd"
	"github.com/podstream/podstream/internal/daemon/tracing"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	"github.com/podstream/podstream/internal/restmetrics"
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
	base, err := opts.Open(daemon.Rights{MinimumRole: minimumRole, Permit: permit(log)}, log)
	if err != nil {
		return err
	}
	defer base.Close()
	restmetrics.Register(base.Registry)
	tracers, flush, err := tracing.Provider(ctx, opts.tracing, "podconfigd")
	if err != nil {
		return err
	}
	defer flush()
	relay, err := opts.passthrough.start(ctx, base.Registry, log)
	if err != nil {
		return err
	}
	counts := metrics.New()
	var health healthOfStore
	hub := mergesvc.NewHub(mergesvc.Config{
		Sources: opts.mergeSources(opts.plan), Store: &store.Config{Path: filepath.Join(opts.RootDir, storeFile), Logger: log},
		Durable: health.set, Logger: log, Metrics: counts, Tracer: tracers.Tracer("podconfigd"),
	})
	objs := objects.New(objects.Config{History: hub.History(), Logger: log})
	intake := mergesvc.Intake{Pods: hub, Objects: objs}
	own := &podconfigv1.RelayHop{Id: podconfigdID(opts.RootDir, log), Node: opts.node}
	first := newFirstReads(opts.plan.Sources)
	sup := newSupervisor(opts, own.GetId(), hub, objs, first.after(intake.Apply), log)
	heard := &listener{plan: sup.plan.Load, sources: hub.Sources, now: time.Now, log: log}
	svc := service.New(service.Config{
		Node: opts.node, Version: process.Version(),
		History: hub.History(), Objects: objs, Preview: hub.Preview, Parse: sup.parseManifest,
		Sources: func() []merge.SourceState { return objs.WithFindings(hub.Sources()) },
		Path:    func() []*podconfigv1.RelayHop { return sup.path(own) }, SourcePath: sup.sourcePath,
		Writing: sup.writing(), ID: own.GetId(), Accept: sup.accept, Silent: heard.isSilent, Confirm: sup.confirm, Lacking: sup.lacking, Rewound: hub.Rewound,
		MaxConsumers: opts.maxConsumers, MaxConsumersPerIdentity: opts.maxConsumersPerIdentity,
		Logger: log, Metrics: counts, Tracer: tracers.Tracer("podconfigd"),
	})
	sup.nodesChanged = svc.NodesChanged
	base.Registry.MustRegister(hub, svc, counts)
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) },
		Closing:  svc.Close, Access: base.Rules, Limits: base.Limits, Logger: log, Metrics: base.Registry,
		Quiet: []string{
			podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName, podconfigv1.PodConfigService_WatchObjects_FullMethodName,
		},
		AcceptTCP: first.within(ctx, firstReadTime),
		Codec:     wire.NewCodec(), ServerOptions: tracing.ServerOptions(opts.tracing, tracers),
	})
	health.notify(func(good bool) { server.SetHealth(storeHealth, good) })
	// The hub outlives its users: the last published revision is still stored.
	stopHub := inBackground(context.WithoutCancel(ctx), hub.Run)
	defer stopHub()
	unit := systemd.New(systemd.Config{Alive: hub.Alive, Logger: log})
	group, ctx := errgroup.WithContext(ctx)
	watch := newConfigWatch(opts.config, opts.pollTime, log)
	reload := &reloader{
		opts: opts, sup: sup, hup: opts.hup, look: watch.look, poll: watch.poll, metrics: counts, log: log,
		settling: settling{settle: settleTime, limit: restlessTime}, leftovers: leftovers{(&builder{rootDir: opts.RootDir}).inRoot(artifactsDir), log},
	}
	group.Go(func() error { return reload.run(ctx) })
	group.Go(func() error { return relay(ctx) })
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
			return extra.Run(ctx, Hub{Apply: intake.Apply, Configure: hub.Configure, Published: published(hub)})
		})
	}
	group.Go(func() error {
		svc.Run(ctx)
		return nil
	})
	group.Go(func() error {
		heard.health, heard.remove, heard.status = server.SetHealth, server.RemoveHealth, unit.SetStatus
		heard.run(ctx)
		return nil
	})
	base.Serve(ctx, group, server)
	group.Go(func() error {
		unit.Run(ctx)
		return nil
	})
	err = group.Wait()
	log.Info("podconfigd is down")
	return err
}

// newSupervisor returns the supervisor, which passes the sources' sets to apply.
func newSupervisor(
	opts *Options, id string, hub *mergesvc.Hub, objs *objects.Hub, apply func(manifest.Set), log *slog.Logger,
) *supervisor {
	b := &builder{
		id: id, node: opts.node, rootDir: opts.RootDir, fileQuietPeriod: opts.fileQuietPeriod, relayPods: opts.relayPods, relayBytes: opts.relayBytes,
		history: hub.History(), log: log,
	}
	s := &supervisor{
		node: opts.node, build: b.build, configure: hub.Configure, configured: opts.mergeSources, apply: apply, drop: objs.Drop,
		follow: func(ctx context.Context, source string, of sources.ObjectSource) error {
			return objs.Follow(ctx, source, of.RunObjects)
		},
		log: log,
	}
	s.plan.Store(opts.plan)
	return s
}

// podconfigdID returns the ID by which podconfigds that relay each other identify this one. If the disk can't store
// it, podconfigd starts with a temporary one.
func podconfigdID(rootDir string, log *slog.Logger) string {
	id, err := daemon.ID(rootDir, "podconfigd-id")
	if err != nil {
		id = uuid.NewString()
		log.Error("the podconfigd ID can't be stored; this run uses a temporary one", "id", id, "error", err)
	}
	return id
}

// storeHealth is the store's service in grpc.health.v1: NOT_SERVING while podconfigd serves from memory.
const storeHealth = "podconfigd.store"

// healthOfStore passes the hub's state on to the server, which is made after the hub.
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

func (h *healthOfStore) notify(to func(bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = to
	to(h.good)
}

// minimumRole returns the least role that may call a method: deployers see what they have applied, inspectors may look,
// consumers receive the pods.
func minimumRole(method string) access.Role {
	switch method {
	case podconfigv1.PodConfigService_ReportApplied_FullMethodName, podconfigv1.PodConfigService_WatchObjects_FullMethodName,
		podconfigv1.PodConfigService_DiffManifests_FullMethodName:
		return access.Consumer
	case podconfigv1.PodConfigService_ListPods_FullMethodName, podconfigv1.PodConfigService_GetPod_FullMethodName,
		podconfigv1.PodConfigService_ListSources_FullMethodName, podconfigv1.PodConfigService_GetVersion_FullMethodName,
		podconfigv1.PodConfigService_ApplyManifests_FullMethodName, podconfigv1.PodConfigService_DeleteManifests_FullMethodName,
		podconfigv1.PodConfigService_ListManifests_FullMethodName:
		return access.Deployer
	case podconfigv1.PodConfigService_AcceptSource_FullMethodName, podconfigv1.PodConfigService_GetProfile_FullMethodName:
		return access.Operator
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
		return st.Instance.ID, st.Number
	}
}
