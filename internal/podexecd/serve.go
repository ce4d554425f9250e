package podexecd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/events/apisink"
	"github.com/podstream/podstream/internal/execsvc/podsapi"
	"github.com/podstream/podstream/internal/execsvc/service"
	"github.com/podstream/podstream/internal/grpcserver"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// serve runs podexecd until ctx ends. The pods go on after that.
func serve(ctx context.Context, opts *Options, stderr io.Writer) error {
	log, err := opts.Logger(stderr)
	if err != nil {
		return err
	}
	opts.tell(log)
	who, limits, err := opts.Access()
	if err != nil {
		return err
	}
	who.Logger, who.MinimumRole = log, service.MinimumRole
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
	// Whole pods are shown there, as the kubelet shows them: to root, and to who runs podexecd.
	local := access.Local()
	podsListeners, err := grpcserver.ListenFor(local, []string{"unix://" + opts.podsAPISocket})
	if err != nil {
		return fmt.Errorf("--pods-api-socket: %w", err)
	}
	page, err := daemon.ListenMetrics(opts.MetricsAddress)
	if err != nil {
		return err
	}
	if page != nil {
		defer func() { _ = page.Close() }() // Who serves it closes it too.
	}
	stream, err := client.New(opts.stream(log))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	recorder, closeEvents, err := newRecorder(opts, log)
	if err != nil {
		return err
	}
	defer closeEvents()
	registry := daemon.NewRegistry()
	n := &node{opts: opts, stream: stream, board: board.New(), events: recorder, registry: registry, log: log}
	if err := n.open(ctx); err != nil {
		return err
	}
	defer n.close()
	svc := service.New(service.Config{Node: opts.node, Board: n.board, Events: recorder, Logs: &n.runtime, Exec: &n.runtime})
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podexecv1.RegisterPodExecServiceServer(r, svc) },
		Closing:  svc.Close, Access: rules, Limits: limits, Logger: log, Metrics: registry,
		Quiet: []string{podexecv1.PodExecService_WatchPodStatus_FullMethodName, podexecv1.PodExecService_WatchEvents_FullMethodName},
	})
	n.health = server.SetHealth
	n.health(runtimeHealth, false)
	pods := podsapi.New(n.board)
	podsServer := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podsv1alpha1.RegisterPodsServer(r, pods) },
		Closing:  pods.Close, Access: local, Limits: limits, Logger: log,
		Quiet: []string{podsv1alpha1.Pods_WatchPods_FullMethodName},
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, listeners) })
	group.Go(func() error { return podsServer.Serve(ctx, podsListeners) })
	group.Go(func() error { return daemon.ServeMetricsOn(ctx, page, registry) })
	n.run(ctx, group)
	log.Info("podexecd is up", "node", opts.node, "podconfigd", opts.podconfigEndpoint, "runtime", opts.settings.RuntimeEndpoint)
	err = group.Wait()
	log.Info("podexecd is down; the pods go on running")
	return err
}

// newRecorder makes the recorder of events, and their way to the API server if there is one.
func newRecorder(opts *Options, log *slog.Logger) (*events.Recorder, func(), error) {
	if opts.settings.Kubeconfig == "" {
		return events.New(events.Config{}), func() {}, nil
	}
	rest, err := opts.apiServer()
	if err != nil {
		return nil, nil, err
	}
	sink, err := apisink.New(apisink.Config{
		REST: rest, Node: opts.node, QPS: opts.settings.EventQPS, Burst: opts.settings.EventBurst, Logger: log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig %s: %w", opts.settings.Kubeconfig, err)
	}
	return events.New(events.Config{Sink: sink}), sink.Close, nil
}

// unlessEnded drops an error that only says that the daemon was told to end.
func unlessEnded(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled) {
		err = nil
	}
	return err
}

// podsDir is where the volumes of pods are.
func podsDir(rootDir string) string { return filepath.Join(rootDir, "pods") }
