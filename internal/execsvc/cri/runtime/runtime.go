package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/cri/containerlog"
	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/machine/share"
	"github.com/podstream/podstream/internal/execsvc/machine/walltime"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// ImageService provides images; it is an image.Puller.
type ImageService interface {
	// Ensure returns the container's image, or the reason why it waits. It doesn't wait for a pull. sandbox is the
	// pod's sandbox config for the pull; nil for none. The error is nil unless something failed.
	Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, *image.Wait, error)
	// Used records that the container is being created from the images that Ensure returned: under the policy Always
	// the next container pulls them again.
	Used(uid types.UID, container string)
}

// HookRunner runs postStart and preStop hooks; it is a handler.Runner.
type HookRunner interface {
	Hook(ctx context.Context, target handler.Target, hook *v1.LifecycleHandler) error
}

// Config has the runtime and the agent's identity.
type Config struct {
	Runtime internalapi.RuntimeService
	Images  ImageService
	// Hooks runs hooks. Nil: they fail.
	Hooks HookRunner
	// Agent is the value of podmeta.AgentAnnotation: it identifies this podexecd among all clients of the runtime, and
	// is the same after a restart.
	Agent string
	// AdoptKubelet has the sandboxes and containers of a kubelet that used PodDirs and LogsDir adopted: they have no
	// agent's mark.
	AdoptKubelet bool
	// LogsDir is the root of the pods' logs: /var/log/pods. Links to them are created in the directory containers
	// beside it.
	LogsDir string
	// PodDirs are the places of the pods' directories, which hold the files of termination messages. The zero value: there
	// are no such files.
	PodDirs kubeletdir.Pods
	// Node has the node's properties that the translation to CRI messages needs.
	Node criconfig.Node
	// HostIPs returns the node's IPs, the primary one first: hooks of pods with hostNetwork use it. Nil: 127.0.0.1.
	HostIPs func() []string
	// RestartBackoffBase and RestartBackoffMax bound a container's restart backoff. Zero means the kubelet's 10 s and 5
	// min.
	RestartBackoffBase, RestartBackoffMax time.Duration
	// MaxPerContainer is how many dead containers of each name are kept in a pod, for their logs. Nil means 1, negative
	// all. The newest of a name is always kept, because the pod's status needs it.
	MaxPerContainer *int
	// MinAge is the least time for which a dead container is kept.
	MinAge time.Duration
	// RemoveCgroup removes the cgroup of a container or sandbox, with the processes in it; it is podsetup.Manager's. It is
	// called before a container is removed that never started, and before an old sandbox of a pod is removed. Nil: nothing
	// is removed.
	RemoveCgroup func(ctx context.Context, pod types.UID, id string) error
	// DeleteTask deletes what the runtime keeps of the first process of a container that isn't running; it is
	// containerd.Tasks'. It is called if the runtime refuses to remove a container that never started. Nil: such a
	// container stays.
	DeleteTask func(ctx context.Context, id string) error
	// MaxFollows is how many logs are followed at once, in shares of pods, namespaces and callers. Zero: 512.
	MaxFollows int
	// Events records the events of containers. Nil: none are recorded.
	Events *events.Recorder
	// Metrics registers the metrics of starts, resizes and events. Nil: they aren't served.
	Metrics prometheus.Registerer
	// Clock is used for backoff, grace periods and ages. Nil means the real one.
	Clock clock.Clock
	// Logger gets a line for each container or sandbox that is created or stopped. Nil discards.
	Logger *slog.Logger
}

// Runtime drives one container runtime. It is safe for concurrent use by the workers of different pods.
type Runtime struct {
	cfg      Config
	log      *slog.Logger
	metrics  *metrics
	restarts *flowcontrol.Backoff
	lists    *flowcontrol.Backoff
	starts   *startLimiter
	// follows are the logs that are followed.
	follows *share.Pool
	// logWatch reports their changes.
	logWatch containerlog.Watch
	// opening has a value for each stream that the runtime hasn't answered.
	opening chan struct{}
	// waits bounds the reads of paths that pods have mounted from the node.
	waits *nodefs.Waits

	// noSandboxResize is set once the runtime has answered that UpdatePodSandboxResources is unimplemented.
	noSandboxResize atomic.Bool

	// adopted are the pods of the kubelet that were adopted.
	adopted adoptions

	mu sync.Mutex
	// details are the containers by ID, as read in their present state. Neither a running nor an ended container
	// changes, except for the resources of a running one. updates counts the changes of resources that this agent has
	// made.
	details map[string]observed.Container
	updates int
	// sandboxes are the sandboxes that were ready when they were read, by ID.
	sandboxes map[string]knownSandbox
	// failedStarts are the IDs of containers whose start failed while this agent waited for it.
	failedStarts map[string]bool
	// replaced are the IDs of containers that this agent stopped to start a successor. preStopped are those whose
	// preStop hook has run. stopped are those that this agent has stopped, or tried to.
	replaced, preStopped, stopped map[string]bool
	// confirmed is when the runtime answered that it had stopped the container.
	confirmed map[string]time.Time
	// signaled is when the termination started, of containers that have had their SIGTERM and still ran.
	signaled map[string]time.Time
	// tried is when this agent first tried to stop containers with their pod, by ID.
	tried map[string]time.Time
	// ages are when containers ended and sandboxes were created, by ID, by this process's clock.
	ages walltime.Readings
}

// stableAfter is how long a container must run to reset its restart backoff.
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
		cfg.MaxFollows = maxFollows
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
		cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics), starts: newStartLimiter(), follows: share.New(cfg.MaxFollows), waits: nodefs.New(nodefs.Config{}),
		opening:  make(chan struct{}, maxOpening),
		restarts: flowcontrol.NewBackOff(cfg.RestartBackoffBase, cfg.RestartBackoffMax),
		lists:    flowcontrol.NewBackOff(10*time.Second, 5*time.Minute),
		details:  map[string]observed.Container{}, sandboxes: map[string]knownSandbox{}, failedStarts: map[string]bool{},
		replaced: map[string]bool{}, preStopped: map[string]bool{}, stopped: map[string]bool{}, signaled: map[string]time.Time{},
		tried: map[string]time.Time{}, confirmed: map[string]time.Time{},
	}
	r.restarts.Clock, r.lists.Clock = cfg.Clock, cfg.Clock
	r.restarts.HasExpiredFunc = func(at, lastUpdate time.Time, _ time.Duration) bool { return at.Sub(lastUpdate) > stableAfter }
	return r
}

// Version returns the name and version of the runtime, once it answers.
func (r *Runtime) Version(ctx context.Context) (name, version string, err error) {
	v, err := r.cfg.Runtime.Version(ctx, "v1")
	if err != nil {
		return "", "", fmt.Errorf("ask the container runtime for its version: %w", err)
	}
	return v.GetRuntimeName(), v.GetRuntimeVersion(), nil
}

// DropBackoff drops expired backoff records.
func (r *Runtime) DropBackoff() {
	r.restarts.GC()
	r.lists.GC()
}

// mark adds a container to one of the sets of IDs.
func (r *Runtime) mark(ids map[string]bool, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids[id] = true
}
