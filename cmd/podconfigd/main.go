// Command podconfigd decides what should run on this node: it reads the pod sources, merges them, and publishes the result as
// one ordered gRPC stream.
package main

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/sources/file"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func main() {
	daemon.Program[*options]{Name: "podconfigd", Parse: parse, Serve: serve}.Main()
}

// serve wires the sources to the hub and the hub to the service, and runs them until ctx ends.
func serve(ctx context.Context, opts *options, stderr io.Writer) error {
	log, err := opts.Logger(stderr)
	if err != nil {
		return err
	}
	release, err := daemon.LockRootDir(opts.RootDir)
	if err != nil {
		return err
	}
	defer release()
	listeners, err := grpcserver.Listen(opts.Listen)
	if err != nil {
		return err
	}
	hub := mergesvc.NewHub(mergesvc.Config{Sources: opts.files, Logger: log})
	svc := service.New(service.Config{History: hub.History(), Sources: hub.Sources, Logger: log})
	registry := daemon.NewRegistry()
	registry.MustRegister(hub)
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) },
		Closing:  svc.Close, Logger: log, Metrics: registry,
	})
	group, ctx := errgroup.WithContext(ctx)
	for _, src := range opts.files {
		source := file.New(file.Config{
			Name: src.Name, Path: src.Location, Node: opts.node, Strict: opts.strict,
			CheckFrequency: opts.fileCheckFrequency, QuietPeriod: opts.fileQuietPeriod, Logger: log,
		})
		group.Go(func() error { return source.Run(ctx, hub.Apply) })
	}
	group.Go(func() error { return server.Serve(ctx, listeners) })
	group.Go(func() error { return daemon.ServeMetrics(ctx, opts.MetricsAddress, registry) })
	log.Info("podconfigd is up", "node", opts.node, "sources", len(opts.files))
	err = group.Wait()
	log.Info("podconfigd is down")
	return err
}
