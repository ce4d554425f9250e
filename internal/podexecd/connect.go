package podexecd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/failpoint/cripoints"
)

// retryConnect is the pause before a runtime that doesn't answer is asked again.
const retryConnect = 500 * time.Millisecond

// connection is the container runtime, once it has answered.
type connection struct {
	runtime internalapi.RuntimeService
	images  internalapi.ImageManagerService
	// name is how the runtime calls itself: "containerd".
	name string
}

// connect makes the runtime's clients, and tries again until the runtime answers, for as long as it takes: at boot it may come
// later.
func connect(ctx context.Context, settings *execconfig.Settings, log *slog.Logger) (*connection, error) {
	for told := false; ; {
		c, err := tryConnect(ctx, settings, log)
		if err == nil {
			return c, nil
		}
		if !told {
			told = true
			log.Warn("container runtime doesn't answer yet; waiting for it", "error", err)
		}
		select {
		case <-time.After(retryConnect):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func tryConnect(ctx context.Context, settings *execconfig.Settings, log *slog.Logger) (*connection, error) {
	// Both Builds make a first call, and fail if there is no answer.
	services, err := cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint(settings.RuntimeEndpoint).WithConnectionTimeout(settings.RequestTimeout).WithTracerProvider(nil).Build(ctx)
	if err != nil {
		return nil, fmt.Errorf("container runtime at %s: %w", settings.RuntimeEndpoint, err)
	}
	images, err := cri.NewRemoteImageServiceBuilder().
		WithEndpoint(settings.ImageEndpoint).WithConnectionTimeout(settings.RequestTimeout).WithTracerProvider(nil).Build(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image service at %s: %w", settings.ImageEndpoint, err), services.Close(ctx))
	}
	c := &connection{}
	c.runtime, c.images = cripoints.Around(services, images)
	version, err := services.Version(ctx, "v1")
	if err != nil {
		c.close(ctx)
		return nil, fmt.Errorf("ask the container runtime for its version: %w", err)
	}
	c.name = version.GetRuntimeName()
	log.Info("container runtime answers", "name", c.name, "version", version.GetRuntimeVersion(), "endpoint", settings.RuntimeEndpoint)
	return c, nil
}

// network is nil unless the runtime says that the node's network isn't ready.
func (c *connection) network(ctx context.Context) error {
	now, err := c.runtime.Status(ctx, false)
	if err != nil {
		// Then the network isn't what is known to be wrong.
		return nil //nolint:nilerr // Said above.
	}
	for _, condition := range now.GetStatus().GetConditions() {
		if condition.GetType() == runtimeapi.NetworkReady && !condition.GetStatus() {
			return fmt.Errorf("%s: %s", condition.GetReason(), condition.GetMessage())
		}
	}
	return nil
}

func (c *connection) close(ctx context.Context) {
	_, _ = c.runtime.Close(ctx), c.images.Close(ctx)
}

// errNoRuntime is what is answered while the container runtime hasn't answered itself.
var errNoRuntime = errors.New("the container runtime doesn't answer yet")

// lateRuntime is the runtime for services that are served from the start.
type lateRuntime struct {
	atomic.Pointer[runtime.Runtime]
}

// ReadLog is part of service.LogReader.
func (l *lateRuntime) ReadLog(ctx context.Context, in runtime.LogInput) error {
	if r := l.Load(); r != nil {
		return r.ReadLog(ctx, in)
	}
	return errNoRuntime
}

// Exec is part of service.Execer.
func (l *lateRuntime) Exec(ctx context.Context, in runtime.ExecInput) (int, error) {
	if r := l.Load(); r != nil {
		return r.Exec(ctx, in)
	}
	return 0, errNoRuntime
}
