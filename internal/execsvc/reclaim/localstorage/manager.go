package localstorage

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
)

// Stats has the sizes of writable layers; it is the container runtime.
type Stats interface {
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
}

// Meter counts the files of pods; it is a *diskusage.Meter.
type Meter interface {
	Counts(ctx context.Context, pods []*v1.Pod, age time.Duration) map[types.UID]diskusage.Usage
}

// Config configures a Manager.
type Config struct {
	// Pods returns the running pods. Only those with a limit are checked.
	Pods func() []*v1.Pod
	// Evict terminates a pod that exceeds a limit. It returns false if the pod was terminating already. It is called
	// in each round while Pods returns the pod.
	Evict func(types.UID, status.Failure) bool
	// Evictions counts the evicted pods by the kind of limit: eviction.NewEvictions. It may be nil.
	Evictions *prometheus.CounterVec
	Meter     Meter
	Stats     Stats
	// Period is the time between two rounds. Zero means the kubelet's 10 s.
	Period time.Duration
	// Clock is the clock of Period. Nil means the real one.
	Clock clock.Clock
	// Logger receives a line for each pod that can't be measured, once per reason. Nil discards them.
	Logger *slog.Logger
}

// Manager evicts pods that exceed their limits of local storage.
type Manager struct {
	cfg Config
	// measureErrors are why pods with a limit couldn't be measured in the last round. Only Run uses it.
	measureErrors map[types.UID]string
}

// New returns a Manager that does nothing before Run.
func New(cfg Config) *Manager {
	if cfg.Period == 0 {
		cfg.Period = 10 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{cfg: cfg}
}

// Run checks the pods every period until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	timer := m.cfg.Clock.NewTimer(m.cfg.Period)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
		m.check(ctx)
		timer.Reset(m.cfg.Period)
	}
}

// countTimeout is how long a round waits for files to be counted. A pod that takes longer is checked in a later
// round.
const countTimeout = time.Second

// check checks all pods with limits once.
func (m *Manager) check(ctx context.Context) {
	var pods []*v1.Pod
	for _, pod := range m.cfg.Pods() {
		if limitsOf(pod) != (limits{}) {
			pods = append(pods, pod)
		}
	}
	before := m.measureErrors
	m.measureErrors = map[types.UID]string{}
	if len(pods) == 0 {
		return
	}
	counting, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	used := m.measure(ctx, counting, pods, 0, func(pod *v1.Pod) bool { return limitsOf(pod).pod })
	for _, pod := range pods {
		if ctx.Err() != nil {
			return
		}
		m.enforce(pod, used[pod.UID], before[pod.UID])
	}
}

// enforce evicts the pod if it exceeds a limit.
func (m *Manager) enforce(pod *v1.Pod, used Usage, before string) {
	trouble := ""
	if err := used.Err(); err != nil {
		trouble = err.Error()
		m.measureErrors[pod.UID] = trouble
	}
	if trouble != "" && trouble != before {
		m.cfg.Logger.Warn("the disk usage of a pod is not fully known; what is known is compared with its limits",
			"pod", podmeta.LogName(pod), "uid", pod.UID, "error", trouble)
	}
	// The pod caused its eviction, so it is not a disruption.
	signal, message := exceeded(pod, used)
	if message != "" && m.cfg.Evict(pod.UID, status.Failure{Reason: events.Evicted, Message: message}) && m.cfg.Evictions != nil {
		m.cfg.Evictions.WithLabelValues(signal).Inc()
	}
}
