package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/handler"
	"github.com/podstream/podstream/internal/execsvc/image"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// ImageService sees to it that images are there; it is an image.Puller.
type ImageService interface {
	// Ensure returns the container's image, or what it waits for. It doesn't wait for a pull. The error is nil unless something
	// failed.
	Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container) (*runtimeapi.Image, *image.Wait, error)
}

// HookRunner carries out postStart and preStop hooks; it is a handler.Runner.
type HookRunner interface {
	Hook(ctx context.Context, target handler.Target, hook *v1.LifecycleHandler) error
}

// Config says which runtime to drive, and as whom.
type Config struct {
	Runtime internalapi.RuntimeService
	Images  ImageService
	// Hooks carries out hooks. Nil: they fail.
	Hooks HookRunner
	// Agent is the value of criconfig.AgentAnnotation: it names this podexecd among all that use the runtime, and is the same
	// after a restart.
	Agent string
	// LogsDir is the root of the pods' logs: /var/log/pods. Links to them are made beside it, in containers.
	LogsDir string
	// PodsDir has a directory for each pod: <root-dir>/pods. The files are there in which containers may leave a termination
	// message. Empty: they can't leave any.
	PodsDir string
	// Node is what has to be known of the node where pods are put in the words of the CRI. Zero: see there.
	Node criconfig.Node
	// HostIPs returns the node's addresses, the primary one first: hooks of pods in the node's network are sent there. Nil:
	// 127.0.0.1.
	HostIPs func() []string
	// RestartBackoffBase and RestartBackoffMax bound the pause before a container is restarted. Zero means the kubelet's 10 s and
	// 5 min.
	RestartBackoffBase, RestartBackoffMax time.Duration
	// MaxPerContainer is how many dead containers of each name are kept in a pod, for their logs. Nil means 1, negative all. The
	// newest of a name is always kept: it tells how the container fared.
	MaxPerContainer *int
	// MinAge is how long a dead container is kept at least.
	MinAge time.Duration
	// MaxFollows is how many logs are followed at once, by whomever: each takes one of root's inotify instances, of which the container
	// runtime and podconfigd need some too. Zero: half of those that the kernel allows.
	MaxFollows int
	// Events is told what happens to containers. Nil: nobody is.
	Events *events.Recorder
	// Clock is for backoff, grace periods and ages. Nil means the real one.
	Clock clock.Clock
	// Logger gets a line for each thing that is made or stopped. Nil discards.
	Logger *slog.Logger
}

// Runtime drives one container runtime. It is safe for concurrent use by the workers of different pods.
type Runtime struct {
	cfg      Config
	log      *slog.Logger
	restarts *flowcontrol.Backoff
	lists    *flowcontrol.Backoff
	turns    *turns
	// follows is how many logs are followed.
	follows atomic.Int64

	// noSandboxResize is set once the runtime has said that it doesn't have UpdatePodSandboxResources.
	noSandboxResize atomic.Bool

	mu sync.Mutex
	// details are those of containers by id, as they were read in the state that they have: neither what runs nor what has ended
	// changes, but for the resources of what runs. updates counts those that this agent has made.
	details map[string]observed.Container
	updates int
	// sandboxes are those that were ready when they were asked for, by id.
	sandboxes map[string]knownSandbox
	// failedStarts are the ids of containers whose start failed while this agent waited for it.
	failedStarts map[string]bool
	// replaced are the ids of containers that this agent stopped to start a successor; preStopped are those whose preStop hook
	// has run; stopped are those that this agent has told to end.
	replaced, preStopped, stopped map[string]bool
	// told is, of the containers that have had their SIGTERM and didn't end by it at once, when their end began.
	told map[string]time.Time
}

// stableAfter is how long a container has to run until all that happened before is forgiven.
const stableAfter = 10 * time.Minute

// New returns a Runtime. It makes no calls.
func New(cfg Config) *Runtime {
	if cfg.RestartBackoffBase == 0 {
		cfg.RestartBackoffBase = 10 * time.Second
	}
	if cfg.RestartBackoffMax == 0 {
		cfg.RestartBackoffMax = 5 * time.Minute
	}
	if cfg.MaxFollows == 0 {
		cfg.MaxFollows = max(inotifyInstances()/2, 1)
	}
	if cfg.HostIPs == nil {
		cfg.HostIPs = func() []string { return []string{"127.0.0.1"} }
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{
		cfg: cfg, log: cfg.Logger, turns: newTurns(),
		restarts: flowcontrol.NewBackOff(cfg.RestartBackoffBase, cfg.RestartBackoffMax),
		lists:    flowcontrol.NewBackOff(10*time.Second, 5*time.Minute),
		details:  map[string]observed.Container{}, sandboxes: map[string]knownSandbox{}, failedStarts: map[string]bool{},
		replaced: map[string]bool{}, preStopped: map[string]bool{}, stopped: map[string]bool{}, told: map[string]time.Time{},
	}
	r.restarts.Clock, r.lists.Clock = cfg.Clock, cfg.Clock
	r.restarts.HasExpiredFunc = func(at, lastUpdate time.Time, _ time.Duration) bool { return at.Sub(lastUpdate) > stableAfter }
	return r
}

// Version is the name and version of the runtime, once it answers.
func (r *Runtime) Version(ctx context.Context) (name, version string, err error) {
	v, err := r.cfg.Runtime.Version(ctx, "v1")
	if err != nil {
		return "", "", fmt.Errorf("ask the container runtime for its version: %w", err)
	}
	return v.GetRuntimeName(), v.GetRuntimeVersion(), nil
}

// ForgetBackoff drops the backoff records that have run out.
func (r *Runtime) ForgetBackoff() {
	r.restarts.GC()
	r.lists.GC()
}

// mark notes something of a container in one of the maps of ids.
func (r *Runtime) mark(ids map[string]bool, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids[id] = true
}
