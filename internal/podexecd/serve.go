package podexecd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execsvc/board"
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
	registry := daemon.NewRegistry()
	member, err := newCluster(opts, registry, log)
	if err != nil {
		return err
	}
	defer member.close()
	n := &node{
		opts: opts, stream: stream, board: board.New(), events: member.recorder(), cluster: member, registry: registry, log: log,
	}
	member.prepare(n.board)
	if n.api, err = newNodeAPI(n); err != nil {
		return err
	}
	if err := n.open(ctx); err != nil {
		return err
	}
	defer n.close()
	svc := service.New(service.Config{Node: opts.node, Board: n.board, Events: n.events, Logs: &n.runtime, Exec: &n.runtime})
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
	n.cluster.begin(ctx, group)
	n.api.run(ctx, group)
	n.run(ctx, group)
	log.Info("podexecd is up", "node", opts.node, "podconfigd", opts.podconfigEndpoint, "runtime", opts.settings.RuntimeEndpoint)
	err = group.Wait()
	log.Info("podexecd is down; the pods go on running")
	return err
}

// unlessEnded drops an error that only says that the daemon was told to end.
func unlessEnded(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled) {
		err = nil
	}
	return err
}

// certDir is where podexecd keeps the certificates that it asked for or made.
func (o *Options) certDir() string {
	return cmp.Or(o.settings.CertDir, filepath.Join(o.RootDir, "pki"))
}

// podsDir is where the volumes of pods are.
func podsDir(rootDir string) string { return filepath.Join(rootDir, "pods") }
