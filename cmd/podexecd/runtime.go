package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	cri "k8s.io/cri-client/pkg"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/runtime"
)

// callTimeout is how long one call to the runtime may take, but for pulls and stops: the kubelet's runtimeRequestTimeout.
const callTimeout = 2 * time.Minute

// connect makes the runtime's client, and tries again until the runtime answers, for as long as it takes: at boot it may come
// later.
func connect(ctx context.Context, opts *options, id string, log *slog.Logger) (r *runtime.Runtime, name string, err error) {
	for told := false; ; {
		r, name, err = tryConnect(ctx, opts, id, log)
		if err == nil {
			return r, name, nil
		}
		if !told {
			told = true
			log.Warn("container runtime doesn't answer yet; waiting for it", "error", err)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

func tryConnect(ctx context.Context, opts *options, id string, log *slog.Logger) (r *runtime.Runtime, name string, err error) {
	// Both Builds make a first call, and fail if there is no answer.
	services, err := cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint(opts.runtimeEndpoint).WithConnectionTimeout(callTimeout).WithTracerProvider(nil).Build(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("--container-runtime-endpoint %s: %w", opts.runtimeEndpoint, err)
	}
	images, err := cri.NewRemoteImageServiceBuilder().
		WithEndpoint(opts.imageEndpoint).WithConnectionTimeout(callTimeout).WithTracerProvider(nil).Build(ctx)
	if err != nil {
		_ = services.Close(ctx)
		return nil, "", fmt.Errorf("--image-service-endpoint %s: %w", opts.imageEndpoint, err)
	}
	r = runtime.New(runtime.Config{
		Runtime: services, Images: images, Agent: id, LogsDir: opts.podLogsDir, MemoryCapacity: memoryCapacity(), Logger: log,
	})
	name, version, err := r.Version(ctx)
	if err != nil {
		_, _ = services.Close(ctx), images.Close(ctx)
		return nil, "", err
	}
	log.Info("container runtime answers", "name", name, "version", version, "endpoint", opts.runtimeEndpoint)
	return r, name, nil
}

// memoryCapacity is the node's memory in bytes, or zero if the kernel doesn't tell.
func memoryCapacity() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) //nolint:gosec // No machine has 2^63 bytes.
}
