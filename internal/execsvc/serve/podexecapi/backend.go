package podexecapi

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	"github.com/podstream/podstream/internal/execsvc/reclaim/imagegc"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Runtime is all that a Server needs of the container runtime: a *runtime.Runtime.
type Runtime interface {
	LogReader
	Execer
	Attacher
	PortForwarder
}

// Backend is the Config.Logs, Exec, Attach, Ports, Restarts, Images and Stats of a Server that is served before the container
// runtime has answered. They fail with ErrNoRuntime until Publish and the others of its kind are called. It is safe for
// concurrent use.
type Backend struct {
	runtime  atomic.Pointer[Runtime]
	restarts atomic.Pointer[Restarter]
	images   atomic.Pointer[Images]
	stats    atomic.Pointer[Stats]
	version  atomic.Pointer[RuntimeVersion]
}

// Publish sets the runtime.
func (b *Backend) Publish(r Runtime) { b.runtime.Store(&r) }

// PublishRestarts sets what restarts containers.
func (b *Backend) PublishRestarts(r Restarter) { b.restarts.Store(&r) }

// PublishImages sets the images.
func (b *Backend) PublishImages(i Images) { b.images.Store(&i) }

// PublishStats sets the stats.
func (b *Backend) PublishStats(s Stats) { b.stats.Store(&s) }

// PublishVersion sets what asks the runtime for its version.
func (b *Backend) PublishVersion(v RuntimeVersion) { b.version.Store(&v) }

// RuntimeVersion is a RuntimeVersion.
func (b *Backend) RuntimeVersion(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	if v := b.version.Load(); v != nil {
		return (*v)(ctx)
	}
	return nil, ErrNoRuntime
}

// ReadLog implements LogReader.
func (b *Backend) ReadLog(ctx context.Context, in runtime.LogInput) error {
	if r := b.runtime.Load(); r != nil {
		return (*r).ReadLog(ctx, in)
	}
	return ErrNoRuntime
}

// Exec implements Execer.
func (b *Backend) Exec(ctx context.Context, in runtime.ExecInput) (int, error) {
	if r := b.runtime.Load(); r != nil {
		return (*r).Exec(ctx, in)
	}
	return 0, ErrNoRuntime
}

// RestartPod implements Restarter.
func (b *Backend) RestartPod(ctx context.Context, uid types.UID, container string) (restarts.Accepted, error) {
	if r := b.restarts.Load(); r != nil {
		return (*r).RestartPod(ctx, uid, container)
	}
	return restarts.Accepted{}, ErrNoRuntime
}

// List implements Images.
func (b *Backend) List(ctx context.Context) ([]*runtimeapi.Image, error) {
	if i := b.images.Load(); i != nil {
		return (*i).List(ctx)
	}
	return nil, ErrNoRuntime
}

// LastUsed implements Images.
func (b *Backend) LastUsed() map[string]time.Time {
	if i := b.images.Load(); i != nil {
		return (*i).LastUsed()
	}
	return nil
}

// Request implements Images.
func (b *Backend) Request(name string) (*image.Request, error) {
	if i := b.images.Load(); i != nil {
		return (*i).Request(name)
	}
	return nil, ErrNoRuntime
}

// Prune implements Images.
func (b *Backend) Prune(ctx context.Context, p imagegc.Pruning) (imagegc.Pruned, error) {
	if i := b.images.Load(); i != nil {
		return (*i).Prune(ctx, p)
	}
	return imagegc.Pruned{}, ErrNoRuntime
}

// Usage implements Stats.
func (b *Backend) Usage(ctx context.Context, brief bool) (*podexecv1.NodeStats, []*podexecv1.PodStats, error) {
	if s := b.stats.Load(); s != nil {
		return (*s).Usage(ctx, brief)
	}
	return nil, nil, ErrNoRuntime
}

// Attach implements Attacher.
func (b *Backend) Attach(ctx context.Context, in runtime.ExecInput) error {
	if r := b.runtime.Load(); r != nil {
		return (*r).Attach(ctx, in)
	}
	return ErrNoRuntime
}

// ForwardPort implements PortForwarder.
func (b *Backend) ForwardPort(ctx context.Context, in runtime.PortInput) error {
	if r := b.runtime.Load(); r != nil {
		return (*r).ForwardPort(ctx, in)
	}
	return ErrNoRuntime
}
