package image

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// Credentials looks up the credentials for pulls.
type Credentials interface {
	// Lookup returns the credentials for a repository ("docker.io/library/busybox"), to be tried in order. None: it is
	// pulled without credentials. It may take long; it ends early with ctx.
	Lookup(ctx context.Context, pod *v1.Pod, repository string) []imageaccess.Login
	// Secrets returns those of Lookup that are from the pod's pull secrets. It doesn't wait.
	Secrets(pod *v1.Pod, repository string) []imageaccess.Login
	// Version changes when the pod's own pull secrets change: a pull that failed with the old ones is then retried at
	// once.
	Version(pod *v1.Pod) string
	// Lacking returns the names of the pod's pull secrets that can't be retrieved. awaited is set if one of them may
	// still arrive: the pod is synced then.
	Lacking(pod *v1.Pod) (names []string, awaited bool)
}

// Config configures a Puller.
type Config struct {
	// Images is the image service of the CRI.
	Images internalapi.ImageManagerService
	// Credentials has the credentials for pulls. Nil: there are none.
	Credentials Credentials
	// Records decide whether a pod may use an image that the node has: pullrecord.Records. Nil: it may use all.
	Records Records
	// Serial runs pulls one after the other. Otherwise MaxParallel is the most at a time; zero: no bound.
	Serial      bool
	MaxParallel int
	// QPS bounds how many pulls start in a second; Burst may start at once. QPS zero: no bound. Burst zero: one.
	QPS   float32
	Burst int
	// BackoffBase and BackoffMax bound the backoff of an image. Zero means the kubelet's 10 s and 5 min.
	BackoffBase, BackoffMax time.Duration
	// Done is called, without locks, when an image that the pod waits for is pulled or has failed, or when its pull
	// starts that Pulls has returned as waiting. Nil: it isn't called.
	Done func(types.UID)
	// Pulled is called, without locks, for each pod that waited for a pull that went well, with the time of the pod's
	// request, and of the end of the pull. Nil: it isn't called.
	Pulled func(uid types.UID, asked, end time.Time)
	// Progress reads how far pulls are: a *pullprogress.Reader. Nil: it isn't known.
	Progress Progress
	// Progressed is called, without locks, for each pod that waits for a pull whose progress in Pulls has changed. Nil: it
	// isn't called.
	Progressed func(types.UID)
	// Metrics registers kubelet_image_pull_duration_seconds. Nil: it isn't served.
	Metrics prometheus.Registerer
	// Events gets the events of pulls. Nil discards.
	Events *events.Recorder
	// Clock is for the backoff, for QPS and for the pauses of Progress. Nil means the real one.
	Clock clock.Clock
	// Logger gets a line for each pull that starts and each that succeeds; at debug level, if the image was pulled
	// before and is the same. Nil discards.
	Logger *slog.Logger
}

// Puller pulls images. It is safe for concurrent use.
type Puller struct {
	cfg Config
	log *slog.Logger
	// durations are those of pulls, by the size of the image.
	durations *prometheus.HistogramVec
	// ctx ends with Close.
	ctx    context.Context //nolint:containedctx // The context of the Puller, from New to Close.
	cancel context.CancelFunc
	// running are the goroutines.
	running sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*podImages
	// requests are those without a pod, by the UID that stands for one. requested is how many there were so far.
	requests  map[types.UID]*Request
	requested uint64
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
	if cfg.Records == nil {
		cfg.Records = noRecords{}
	}
	if cfg.Done == nil {
		cfg.Done = func(types.UID) {}
	}
	if cfg.Pulled == nil {
		cfg.Pulled = func(types.UID, time.Time, time.Time) {}
	}
	if cfg.Progressed == nil {
		cfg.Progressed = func(types.UID) {}
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
	p := &Puller{
		cfg: cfg, log: cfg.Logger, durations: kubeletmetrics.ImagePullDuration.Vec(cfg.Metrics), pods: map[types.UID]*podImages{},
		requests: map[types.UID]*Request{}, queue: queue{pulls: map[string]*pull{}, pulled: map[string]string{}},
	}
	if cfg.QPS > 0 {
		p.limit = rate.NewLimiter(rate.Limit(cfg.QPS), max(cfg.Burst, 1))
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close cancels all pulls and waits for their end. Done isn't called.
func (p *Puller) Close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		select {
		case <-r.ended:
		default:
			r.err = ErrClosed
			close(r.ended)
		}
	}
}

// Ensure returns the container's image if the node has it, the pull policy allows its use, and the pod may use it. Always allows it to a
// container that waited for the pull, until Used and for a minute at most. Otherwise the image is pulled, or wait has
// the reason why not. sandbox is the pod's sandbox config for the pull; it may be nil. err, whose text doesn't have the
// reason, is set for failures only: not during a pull, and once for a pull that failed, not in its backoff. The texts
// have 4 KiB at most.
func (p *Puller) Ensure(
	ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig,
) (*runtimeapi.Image, *Wait, error) {
	image, wait, err := p.ensure(ctx, pod, c, sandbox)
	if wait != nil {
		wait.Message = clip(wait.Message, maxMessage)
	}
	return image, wait, clipError(err)
}

func (p *Puller) ensure(
	ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig,
) (image *runtimeapi.Image, wait *Wait, err error) {
	ref, err := parseReference(c.Image)
	if err != nil {
		message := fmt.Sprintf("Failed to apply default image tag %q: %v", clip(c.Image, maxReference), err)
		p.record(pod, c, events.Warning, events.FailedToInspect, "%s", message)
		return nil, &Wait{Reason: InvalidImageName, Message: message}, err
	}
	if wait := p.awaitSecrets(pod); wait != nil {
		return nil, wait, nil
	}
	if wait := p.join(pod, c, ref); wait != nil {
		return nil, wait, nil
	}
	if owed := p.justPulled(pod, c, ref); c.ImagePullPolicy != v1.PullAlways || owed != "" {
		image, wait, err = p.look(ctx, pod, ref, owed)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("look for image %q: %w", c.Image, ctx.Err())
		return nil, &Wait{Reason: ImageInspectError, Message: err.Error()}, err
	case err != nil:
		message := fmt.Sprintf("Failed to inspect image %q: %v", c.Image, err)
		p.record(pod, c, events.Warning, events.FailedToInspect, "%s", message)
		return nil, &Wait{Reason: ImageInspectError, Message: message}, fmt.Errorf("look for image %q: %w", c.Image, err)
	case image != nil:
		p.recordPresent(pod, c, ref)
		return image, nil, nil
	case wait != nil:
		return nil, wait, nil
	case c.ImagePullPolicy == v1.PullNever:
		// The message is the same if the pod lacks the credentials for the image, and so doesn't show that the node has it.
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		p.record(pod, c, events.Warning, events.ErrImageNeverPullPolicy, "%s", message)
		return nil, &Wait{Reason: ErrImageNeverPull, Message: message}, fmt.Errorf("image %q is absent, and its pull policy is Never", c.Image)
	}
	wait, err = p.pull(pod, c, ref, sandbox)
	return nil, wait, err
}

// present returns the image that the runtime has by a name or an ID, or nil if it isn't there.
func (p *Puller) present(ctx context.Context, pod *v1.Pod, name string) (*runtimeapi.Image, error) {
	resp, err := p.cfg.Images.ImageStatus(ctx, imageSpec(pod, name), false)
	if err != nil {
		return nil, err
	}
	return resp.GetImage(), nil
}

// Drop removes the state of a removed pod. Pulls that no other pod waits for are cancelled.
func (p *Puller) Drop(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	images := p.pods[uid]
	if images == nil {
		return
	}
	delete(p.pods, uid)
	images.dropped = true
	for _, a := range images.asks {
		if !a.held {
			a.cancel()
			p.leave(a)
		}
	}
	for _, l := range images.lookups {
		l.cancel()
	}
}

func (p *Puller) record(pod *v1.Pod, c *v1.Container, eventType, reason, format string, args ...any) {
	p.cfg.Events.Record(pod, c.Name, eventType, reason, fmt.Sprintf(format, args...))
}

// none are the credentials of a node that has none.
type none struct{}

func (none) Lookup(context.Context, *v1.Pod, string) []imageaccess.Login { return nil }
func (none) Secrets(*v1.Pod, string) []imageaccess.Login                 { return nil }
func (none) Version(*v1.Pod) string                                      { return "" }
func (none) Lacking(*v1.Pod) ([]string, bool)                            { return nil, false }
