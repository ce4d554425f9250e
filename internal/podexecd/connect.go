package podexecd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/cri/containerd"
	"github.com/podstream/podstream/internal/execsvc/cri/instrumented"
	"github.com/podstream/podstream/internal/failpoint/cripoints"
)

// retryConnect is the pause between attempts to connect to the runtime.
const retryConnect = 500 * time.Millisecond

// connection is a container runtime that has answered.
type connection struct {
	runtime internalapi.RuntimeService
	images  internalapi.ImageManagerService
	tasks   *containerd.Tasks
	content *containerd.Content
	// name is the runtime's name: "containerd".
	name string
}

// connect makes the runtime's clients, and retries until the runtime answers: at boot it may start later. health is
// called with the result of each attempt. tracers make spans of the calls; nil: there are none. calls counts them.
func connect(
	ctx context.Context, settings *execconfig.Settings, tracers trace.TracerProvider, calls *instrumented.Calls, health func(error), log *slog.Logger,
) (*connection, error) {
	for reported := false; ; {
		c, err := tryConnect(ctx, settings, tracers, calls, log)
		health(err)
		if err == nil {
			return c, nil
		}
		if !reported {
			reported = true
			log.Warn("container runtime doesn't answer yet; waiting for it", "error", err)
		}
		select {
		case <-time.After(retryConnect):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func tryConnect(
	ctx context.Context, settings *execconfig.Settings, tracers trace.TracerProvider, calls *instrumented.Calls, log *slog.Logger,
) (*connection, error) {
	// Both Build calls make a first request, and fail without an answer.
	services, err := cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint(settings.RuntimeEndpoint).WithConnectionTimeout(settings.RequestTimeout).WithTracerProvider(tracers).Build(ctx)
	if err != nil {
		return nil, fmt.Errorf("container runtime at %s: %w", settings.RuntimeEndpoint, err)
	}
	images, err := cri.NewRemoteImageServiceBuilder().
		WithEndpoint(settings.ImageEndpoint).WithConnectionTimeout(settings.RequestTimeout).WithTracerProvider(tracers).Build(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image service at %s: %w", settings.ImageEndpoint, err), services.Close(ctx))
	}
	tasks, err := containerd.NewTasks(settings.RuntimeEndpoint, settings.RequestTimeout)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tasks at %s: %w", settings.RuntimeEndpoint, err), services.Close(ctx), images.Close(ctx))
	}
	content, err := containerd.NewContent(settings.ImageEndpoint)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("content at %s: %w", settings.ImageEndpoint, err), services.Close(ctx), images.Close(ctx), tasks.Close())
	}
	c := &connection{tasks: tasks, content: content}
	c.runtime, c.images = cripoints.Around(calls.Around(services, images))
	version, err := services.Version(ctx, "v1")
	if err != nil {
		c.close(ctx)
		return nil, fmt.Errorf("ask the container runtime for its version: %w", err)
	}
	c.name = version.GetRuntimeName()
	log.Info("container runtime answers", "name", c.name, "version", version.GetRuntimeVersion(), "endpoint", settings.RuntimeEndpoint)
	return c, nil
}

// network returns an error if the runtime reports that the node's network isn't ready.
func (c *connection) network(ctx context.Context) error {
	now, err := c.runtime.Status(ctx, false)
	if err != nil {
		// Without an answer the network isn't known to be unready.
		return nil //nolint:nilerr // As above.
	}
	for _, condition := range now.GetStatus().GetConditions() {
		if condition.GetType() == runtimeapi.NetworkReady && !condition.GetStatus() {
			return fmt.Errorf("%s: %s", condition.GetReason(), condition.GetMessage())
		}
	}
	return nil
}

// assignTimeout is the time limit for the container runtime to apply the pods' address range.
const assignTimeout = 5 * time.Second

// assign gives the runtime the pods' address range from the configuration, if there is one. A Node object's replaces it.
// As with the kubelet, pods also run if that fails: most runtimes have their ranges from the network plugin.
func (c *connection) assign(ctx context.Context, cidr string, log *slog.Logger) {
	if cidr == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	if err := c.assignCIDRs(ctx, cidr); err != nil {
		log.Warn("container runtime doesn't take the pods' address range", "range", cidr, "error", err)
	}
}

func (c *connection) assignCIDRs(ctx context.Context, cidrs string) error {
	return c.runtime.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidrs}})
}

func (c *connection) close(ctx context.Context) {
	_, _, _, _ = c.runtime.Close(ctx), c.images.Close(ctx), c.tasks.Close(), c.content.Close()
}
