package runtime

import (
	"context"
	"fmt"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/clock"
)

// Config says which runtime to drive, and as whom.
type Config struct {
	// Runtime and Images are the two services of the CRI.
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
	// Agent is the value of criconfig.AgentAnnotation: it names this podexecd among all that use the runtime, and is the same after a
	// restart.
	Agent string
	// LogsDir is the root of the pods' logs: /var/log/pods. Links to them are made beside it, in containers.
	LogsDir string
	// MemoryCapacity is the node's memory in bytes, for the OOM score.
	MemoryCapacity int64
	// BackoffBase and BackoffMax bound the pause before a container is restarted or an image pulled again. Zero means the
	// kubelet's 10 s and 5 min.
	BackoffBase, BackoffMax time.Duration
	// Clock is for the backoff. Nil means the real one.
	Clock clock.Clock
	// Logger gets a line for each thing that is made or stopped. Nil discards.
	Logger *slog.Logger
}

// Runtime drives one container runtime. It is safe for concurrent use by the workers of different pods.
type Runtime struct {
	cfg      Config
	log      *slog.Logger
	restarts *flowcontrol.Backoff
	pulls    *flowcontrol.Backoff

	mu sync.Mutex
	// pullFailed is when each pull that is in backoff failed last.
	pullFailed map[string]time.Time
	// exited are the details of exited containers by id: they don't change any more.
	exited map[string]observed.Container
	// failedStarts are the ids of containers whose start failed while this agent waited for it.
	failedStarts map[string]bool
}

// New returns a Runtime. It makes no calls.
func New(cfg Config) *Runtime {
	if cfg.BackoffBase == 0 {
		cfg.BackoffBase = 10 * time.Second
	}
	if cfg.BackoffMax == 0 {
		cfg.BackoffMax = 5 * time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Runtime{
		cfg: cfg, log: cfg.Logger, exited: map[string]observed.Container{}, failedStarts: map[string]bool{}, pullFailed: map[string]time.Time{},
		restarts: newBackoff(cfg), pulls: newBackoff(cfg),
	}
}

func newBackoff(cfg Config) *flowcontrol.Backoff {
	b := flowcontrol.NewBackOff(cfg.BackoffBase, cfg.BackoffMax)
	b.Clock = cfg.Clock
	return b
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
	r.pulls.GC()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.pullFailed {
		if r.pulls.Get(key) == 0 {
			delete(r.pullFailed, key)
		}
	}
}
