package image

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/events"
)

// Credentials tells what an image may be pulled with.
type Credentials interface {
	// Lookup returns the credentials for a repository ("docker.io/library/busybox"), to be tried in order. None: it is pulled without
	// any. It may take its time; it ends early with ctx.
	Lookup(ctx context.Context, pod *v1.Pod, repository string) []*runtimeapi.AuthConfig
	// Version changes when the pod's own pull secrets change: what failed with the old ones needn't wait to be tried again.
	Version(pod *v1.Pod) string
}

// Config says where images come from, and how many at a time.
type Config struct {
	// Images is the image service of the CRI.
	Images internalapi.ImageManagerService
	// Credentials are what images are pulled with. Nil: nothing.
	Credentials Credentials
	// Serial has images pulled one after the other. Else MaxParallel is the most at a time; zero: no bound.
	Serial      bool
	MaxParallel int
	// QPS bounds how many pulls begin in a second; Burst may begin at once. QPS zero: no bound. Burst zero: one.
	QPS   float32
	Burst int
	// BackoffBase and BackoffMax bound the pause before an image is pulled again. Zero means the kubelet's 10 s and 5 min.
	BackoffBase, BackoffMax time.Duration
	// Done is called, without locks, when an image that the pod waits for has come or failed, or its turn to be pulled has come after a
	// while. Nil: nobody is told.
	Done func(types.UID)
	// Events gets what users see of pulls. Nil discards.
	Events *events.Recorder
	// Clock is for the backoff and for QPS. Nil means the real one.
	Clock clock.Clock
	// Logger gets a line for each pull that begins and each that succeeds. Nil discards.
	Logger *slog.Logger
}

// Puller pulls images. It is safe for concurrent use.
type Puller struct {
	cfg Config
	log *slog.Logger
	// ctx ends with Close.
	ctx    context.Context //nolint:containedctx // It is the life of the Puller, from New to Close.
	cancel context.CancelFunc
	// running are the goroutines.
	running sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*podImages
	queue
}

// New returns a Puller. Close it.
func New(cfg Config) *Puller {
	if cfg.BackoffBase == 0 {
		cfg.BackoffBase = 10 * time.Second
	}
	if cfg.BackoffMax == 0 {
		cfg.BackoffMax = 5 * time.Minute
	}
	if cfg.Credentials == nil {
		cfg.Credentials = none{}
	}
	if cfg.Done == nil {
		cfg.Done = func(types.UID) {}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Serial {
		cfg.MaxParallel = 1
	}
	p := &Puller{cfg: cfg, log: cfg.Logger, pods: map[types.UID]*podImages{}, queue: queue{pulls: map[string]*pull{}}}
	if cfg.QPS > 0 {
		p.limit = rate.NewLimiter(rate.Limit(cfg.QPS), max(cfg.Burst, 1))
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close breaks off all pulls and waits for their end. Nobody is told of it.
func (p *Puller) Close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.running.Wait()
}

// Ensure returns the container's image if the node has it and the pull policy is content with that; after a pull, Always is so for a
// minute. Else it sees to it that the image is being pulled, or says why not: wait is then not nil. err, whose text doesn't have the
// reason, is set for failures only: not while a pull is under way, and once for a pull that failed, not in the pause after it.
func (p *Puller) Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container) (image *runtimeapi.Image, wait *Wait, err error) {
	ref, err := parseReference(c.Image)
	if err != nil {
		p.record(pod, c, events.Warning, events.FailedToInspect, "Failed to apply default image tag %q: %v", c.Image, err)
		return nil, &Wait{Reason: InvalidImageName, Message: err.Error()}, err
	}
	if wait := p.join(pod, c, ref); wait != nil {
		return nil, wait, nil
	}
	if c.ImagePullPolicy != v1.PullAlways || p.justPulled(pod, ref) {
		image, err = p.present(ctx, ref)
	}
	switch {
	case err != nil:
		p.record(pod, c, events.Warning, events.FailedToInspect, "Failed to inspect image %q: %v", c.Image, err)
		return nil, &Wait{Reason: ImageInspectError, Message: err.Error()}, err
	case image != nil:
		p.tellPresent(pod, c, ref)
		return image, nil, nil
	case c.ImagePullPolicy == v1.PullNever:
		p.record(pod, c, events.Warning, events.ErrImageNeverPullPolicy, "Container image %q is not present with pull policy of Never", c.Image)
		err := fmt.Errorf("container image %q is not present with pull policy of Never", c.Image)
		return nil, &Wait{Reason: ErrImageNeverPull, Message: err.Error()}, err
	}
	wait, err = p.pull(pod, c, ref)
	return nil, wait, err
}

// present is the image as the runtime has it, or nil if it doesn't.
func (p *Puller) present(ctx context.Context, ref reference) (*runtimeapi.Image, error) {
	resp, err := p.cfg.Images.ImageStatus(ctx, ref.spec(), false)
	if err != nil {
		return nil, fmt.Errorf("look for image %q: %w", ref.given, err)
	}
	return resp.GetImage(), nil
}

// Pull is a pull that is under way, or waits for its turn.
type Pull struct {
	Image string
	// Asked is when the pod asked for it, Started when the runtime was told to pull; zero: not yet.
	Asked, Started time.Time
}

// Pulls returns the pulls that a pod waits for, the oldest first.
func (p *Puller) Pulls(uid types.UID) []Pull {
	p.mu.Lock()
	defer p.mu.Unlock()
	images := p.pods[uid]
	if images == nil {
		return nil
	}
	var pulls []Pull
	for _, a := range images.asks {
		pulls = append(pulls, Pull{Image: a.ref.given, Asked: a.asked, Started: a.started()})
	}
	slices.SortFunc(pulls, func(a, b Pull) int {
		if order := a.Asked.Compare(b.Asked); order != 0 {
			return order
		}
		return strings.Compare(a.Image, b.Image)
	})
	return pulls
}

// Forget drops all that is known of a pod that is gone. Pulls that nobody else waits for are broken off.
func (p *Puller) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	images := p.pods[uid]
	if images == nil {
		return
	}
	delete(p.pods, uid)
	for _, a := range images.asks {
		a.cancel()
		p.leave(a)
	}
}

func (p *Puller) record(pod *v1.Pod, c *v1.Container, eventType, reason, format string, args ...any) {
	p.cfg.Events.Record(pod, c.Name, eventType, reason, fmt.Sprintf(format, args...))
}

// none are the credentials of a node that has none.
type none struct{}

func (none) Lookup(context.Context, *v1.Pod, string) []*runtimeapi.AuthConfig { return nil }
func (none) Version(*v1.Pod) string                                           { return "" }
