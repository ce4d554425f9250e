package podexecd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/daemon/systemd"
	"github.com/podstream/podstream/internal/execsvc/cri/strays"
	"github.com/podstream/podstream/internal/execsvc/serve/podexecapi"
	"github.com/podstream/podstream/internal/execsvc/serve/podsapi"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/restmetrics"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The bytes that a caller may send on a stream, and on a connection, before they are taken.
const (
	streamWindow     = 256 << 10
	connectionWindow = 1 << 20
)

// serve runs podexecd until ctx ends. The pods keep running after that.
func serve(ctx context.Context, opts *Options, stderr io.Writer) error {
	log, err := opts.Logger(stderr)
	if err != nil {
		return err
	}
	opts.report(log)
	base, err := opts.Open(daemon.Rights{MinimumRole: podexecapi.MinimumRole}, log)
	if err != nil {
		return err
	}
	defer base.Close()
	if err := checkKubelet(ctx, opts, log); err != nil {
		return err
	}
	kubeletDir, err := opts.openKubeletDir(log)
	if err != nil {
		return err
	}
	defer kubeletDir.Close()
	if err := prepareHost(opts.settings, "", log); err != nil {
		return err
	}
	// This socket serves whole pods, as the kubelet's does: to root, and to podexecd's user.
	local := access.Local()
	podsListeners, err := grpcserver.ListenFor(local, []string{"unix://" + opts.podsAPISocket})
	if err != nil {
		return fmt.Errorf("--pods-api-socket: %w", err)
	}
	stream, err := client.New(opts.stream(log))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	restmetrics.Register(base.Registry)
	n, err := newNode(opts, stream, base.Registry, log)
	if err != nil {
		return err
	}
	n.podDirs = kubeletDir.Pods
	defer n.close()
	base.Others = append(base.Others, n.probes)
	flush, err := n.traceTo(ctx, &opts.settings.Tracing)
	if err != nil {
		return err
	}
	defer flush()
	if err := n.open(ctx); err != nil {
		return err
	}
	svc := podexecapi.New(podexecapi.Config{
		Node: opts.node, Version: process.Version(), Board: n.board, Events: n.events, Logs: n.backend, Exec: n.backend,
		Restarts: n.backend, Images: n.backend, Stats: n.backend, Volumes: n.volumes.claimed, RuntimeVersion: n.backend.RuntimeVersion,
		Attach: n.backend, Ports: n.backend, Logger: log,
		Kill: strays.New(strays.Proc).Kill,
	})
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podexecv1.RegisterPodExecServiceServer(r, svc) },
		Closing:  svc.Close, Access: base.Rules, Limits: base.Limits, Logger: log, Metrics: base.Registry,
		Quiet: []string{podexecv1.PodExecService_WatchPodStatus_FullMethodName, podexecv1.PodExecService_WatchEvents_FullMethodName},
		// gRPC's own windows grow to 16 MiB for each stream whose data isn't taken.
		ServerOptions: []grpc.ServerOption{grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connectionWindow)},
	})
	n.health = server.SetHealth
	server.SetHealthUnknown(runtimeHealth)
	pods := podsapi.New(n.board, base.Registry)
	podsServer := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podsv1alpha1.RegisterPodsServer(r, pods) },
		Closing:  pods.Close, Access: local, Limits: base.Limits, Logger: log,
		Quiet: []string{podsv1alpha1.Pods_WatchPods_FullMethodName},
	})
	group, ctx := errgroup.WithContext(ctx)
	base.Serve(ctx, group, server)
	group.Go(func() error { return podsServer.Serve(ctx, podsListeners) })
	// Before the first goroutine that may start a process, so that none has systemd's variables.
	unit := systemd.New(systemd.Config{Alive: n.progress.alive, Logger: log})
	n.run(ctx, group)
	group.Go(func() error { unit.Run(ctx); return nil })
	group.Go(func() error { n.reportState(ctx, unit.SetStatus); return nil })
	log.Info("podexecd is up", "node", opts.node, "podconfigd", opts.endpoint(), "runtime", opts.settings.RuntimeEndpoint)
	err = group.Wait()
	log.Info("podexecd is down; the pods keep running")
	return err
}

// unlessEnded returns nil for an error that only reports the end of ctx, also as the error of a gRPC call.
func unlessEnded(ctx context.Context, err error) error {
	canceled := errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
	if canceled && errors.Is(ctx.Err(), context.Canceled) {
		err = nil
	}
	return err
}

// certDir returns the directory of podexecd's certificates.
func (o *Options) certDir() string {
	return cmp.Or(o.settings.CertDir, filepath.Join(o.RootDir, "pki"))
}

// openKubeletDir opens --kubelet-dir for this podexecd.
func (o *Options) openKubeletDir(log *slog.Logger) (*kubeletdir.Dir, error) {
	agent, err := agentID(o.RootDir)
	if err != nil {
		return nil, err
	}
	return kubeletdir.Open(kubeletdir.Config{Path: o.kubeletDir, RootDir: o.RootDir, Agent: agent, Adopt: o.adoptKubelet, Logger: log})
}
