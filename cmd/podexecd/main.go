// Command podexecd runs the pods that podconfigd streams: it drives a container runtime over CRI and shows what runs.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execsvc"
	"github.com/podstream/podstream/internal/execsvc/service"
	"github.com/podstream/podstream/internal/execsvc/volume"
	"github.com/podstream/podstream/internal/grpcserver"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func main() {
	daemon.Program[*options]{Name: "podexecd", Parse: parse, Serve: serve}.Main()
}

// serve wires the stream to the agent and the agent to the runtime and the service, and runs them until ctx ends.
func serve(ctx context.Context, opts *options, stderr io.Writer) error {
	log, err := opts.Logger(stderr)
	if err != nil {
		return err
	}
	// The CRI client logs each failed call through klog, and returns it too: once is enough, but for debugging.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	if opts.Verbosity >= daemon.DebugVerbosity {
		klog.SetSlogLogger(log.With("from", "cri-client"))
	}
	who, limits, err := opts.Access()
	if err != nil {
		return err
	}
	who.Logger = log
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
	stream, err := client.New(opts.stream(log))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	id, err := agentID(opts.RootDir)
	if err != nil {
		return err
	}
	// Nil until the runtime answers; what podexecd shows is empty until then.
	var agent atomic.Pointer[execsvc.Agent]
	show := func() []service.Pod {
		if a := agent.Load(); a != nil {
			return a.Show()
		}
		return nil
	}
	registry := daemon.NewRegistry()
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podexecv1.RegisterPodExecServiceServer(r, service.New(opts.node, show)) },
		Access:   rules, Limits: limits, Logger: log, Metrics: registry,
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, listeners) })
	group.Go(func() error { return daemon.ServeMetrics(ctx, opts.MetricsAddress, registry) })
	group.Go(func() error {
		runtime, name, err := connect(ctx, opts, id, log)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		agent.Store(execsvc.New(execsvc.Config{
			Runtime: runtime, RuntimeName: name, HostIPs: hostIPs, Logger: log,
			Volumes: volume.New(volume.Config{PodsDir: filepath.Join(opts.RootDir, "pods")}),
		}))
		group.Go(func() error { agent.Load().Run(ctx); return nil })
		return unlessEnded(ctx, stream.Watch(ctx, client.WatchOptions{}, agent.Load().Deliver))
	})
	log.Info("podexecd is up", "node", opts.node, "podconfigd", opts.podconfigEndpoint, "runtime", opts.runtimeEndpoint)
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
