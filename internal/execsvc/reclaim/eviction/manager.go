package eviction

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/reclaim/localstorage"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

const (
	// period is the time between two synchronizations.
	period = 10 * time.Second
	// terminationPeriod is the time between two checks for the end of an evicted pod. terminationSlack is how long
	// the manager waits beyond the pod's grace period.
	terminationPeriod, terminationSlack = time.Second, 30 * time.Second
	// measureTimeout bounds the measurement of what pods use.
	measureTimeout = time.Minute
	// countTimeout is the part of measureTimeout for counting files. After it, the files counted so far are a pod's
	// usage.
	countTimeout = 15 * time.Second
	// reclaimTimeout bounds the removal of exited containers, and of unused images: it is the longest call of the runtime.
	reclaimTimeout = 2 * time.Minute
	// After metBurst events EvictionThresholdMet, there is one each metPeriod: a pod may take memory, and free it, all the
	// time, and the Node needs the events that client-go lets pass for others too.
	metBurst, metPeriod = 5, 20 * time.Minute
	// defaultTransition is evictionPressureTransitionPeriod.
	defaultTransition = 5 * time.Minute
)

// Config configures a Manager. Run's goroutine calls the functions; no other goroutine does.
type Config struct {
	// Thresholds come from Parse. Without any, the manager does nothing.
	Thresholds []Threshold
	// PressureTransitionPeriod is evictionPressureTransitionPeriod: how long a condition lasts after its last cause.
	// Zero means 5 min.
	PressureTransitionPeriod time.Duration
	// MaxPodGracePeriod is evictionMaxPodGracePeriod: the most seconds that a pod evicted for a soft threshold gets.
	// Below zero, it gets its own grace period.
	MaxPodGracePeriod int64

	// RootDir is a directory on nodefs. Disks returns those of the runtime; nil means that they are on nodefs.
	RootDir string
	// PreviousDir has the directories of pods that an earlier version started. If it is on another file system than RootDir,
	// the one with less room counts as nodefs. Empty: there are no such pods.
	PreviousDir string
	Disks       func(context.Context) (Disks, error)
	// PodsCgroup is the cgroup of all pods, "/kubepods". Its memory limit must exceed the node's allocatable by the
	// hard memory threshold. Empty means that allocatableMemory.available is not observed.
	PodsCgroup string
	// Machine is the directory of the machine's /proc and /sys. Empty means /.
	Machine string

	// Pods returns the pods that may be evicted, and those that are terminating: Agent.Evictable.
	Pods func() []*v1.Pod
	// Evict terminates a pod within grace seconds, and fails it. It returns false if the pod was terminating at least
	// as fast already.
	Evict func(uid types.UID, grace int64, why status.Failure) bool
	// Gone reports whether all of an evicted pod has ended, so that its resources are free. Nil means that the
	// manager does not wait.
	Gone func(types.UID) bool
	// Stats and DiskUsage, localstorage.Manager's Measure, measure pods. They are called only when a pod must be
	// evicted.
	Stats     Stats
	DiskUsage func(ctx context.Context, pods []*v1.Pod, age time.Duration) map[types.UID]localstorage.Usage
	// RemoveExitedContainers and RemoveUnusedImages free space on a disk. Nil means that there is nothing to remove.
	RemoveExitedContainers, RemoveUnusedImages func(context.Context) error

	// Notifier reports when memory crosses a threshold: a *memcg.Notifier. Nil: memory is only observed every ten seconds.
	Notifier Notifier

	// Conditions receives the conditions of each synchronization. Nil: the Manager has its own.
	Conditions *Conditions
	// PressureChanged is called when Pressure changes. It may be nil.
	PressureChanged func()
	// Event receives events of the Node. It may be nil.
	Event func(nodestatus.Event)
	// Evictions counts the evicted pods by signal: NewEvictions. It may be nil.
	Evictions *prometheus.CounterVec
	// Metrics registers the other metrics. It may be nil.
	Metrics prometheus.Registerer
	// Logger receives changes of conditions and the reasons of failed observations. Nil discards them.
	Logger *slog.Logger
}

// Manager is the eviction manager.
type Manager struct {
	*Conditions
	cfg Config
	log *slog.Logger

	// The rest belongs to Run's goroutine, and to ObserveOnce before it. observeError is the error of the last
	// observation. reclaimFailed is set if the last reclaim failed, usageUnknown if the last measurement was
	// incomplete.
	reader reader
	// removals are the removals under way: one may hang with its disk.
	removals                                              *nodefs.Waits
	state                                                 state
	observedOnce, reclaiming, reclaimFailed, usageUnknown bool
	observeError, armError                                string
	// metEvents limits the events EvictionThresholdMet.
	metEvents *rate.Limiter
	// observedAt is when the last observation started.
	observedAt time.Time
	// statsAge is the age of the observations for which pods are evicted.
	statsAge *prometheus.HistogramVec
	// terminating are the evicted pods whose end the manager waits for. overdue are those that did not end in time.
	terminating []termination
	overdue     map[types.UID]bool
}

// New returns a Manager that has observed nothing yet.
func New(cfg Config) *Manager {
	if cfg.PressureTransitionPeriod == 0 {
		cfg.PressureTransitionPeriod = defaultTransition
	}
	if cfg.PressureChanged == nil {
		cfg.PressureChanged = func() {}
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Conditions == nil {
		cfg.Conditions = NewConditions()
	}
	if cfg.Evictions == nil {
		cfg.Evictions = NewEvictions(nil)
	}
	return &Manager{
		Conditions: cfg.Conditions, cfg: cfg, log: cfg.Logger, overdue: map[types.UID]bool{},
		reader: reader{
			root: cfg.Machine, dir: cfg.RootDir, previous: cfg.PreviousDir, podsCgroup: cfg.PodsCgroup, disks: cfg.Disks, stat: statfs,
			waits: nodefs.New(nodefs.Config{Timeout: statTimeout}),
		},
		statsAge:  kubeletmetrics.EvictionStatsAge.Vec(cfg.Metrics),
		metEvents: rate.NewLimiter(rate.Every(metPeriod), metBurst), removals: nodefs.New(nodefs.Config{Timeout: reclaimTimeout}),
	}
}

// NewEvictions returns the counter kubelet_evictions, which localstorage.Manager shares. With a nil Registerer it is
// not exposed.
func NewEvictions(r prometheus.Registerer) *prometheus.CounterVec {
	return kubeletmetrics.Evictions.Vec(r)
}

// ObserveOnce observes the signals once and evicts nothing, so that Pressure and Admit are valid before the first pod
// arrives. Run then waits one period first. If called, it is called before Run.
func (m *Manager) ObserveOnce(ctx context.Context) {
	if len(m.cfg.Thresholds) > 0 {
		m.evaluate(ctx)
		m.observedOnce = true
	}
}

// Run synchronizes every period until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	if len(m.cfg.Thresholds) == 0 {
		<-ctx.Done()
		return
	}
	if m.observedOnce {
		m.pause(ctx, period)
	}
	for ctx.Err() == nil {
		m.synchronize(ctx)
		m.wait(ctx)
	}
}

// synchronize observes the signals, and reclaims resources if a threshold is met.
func (m *Manager) synchronize(ctx context.Context) {
	act, seen, disks := m.evaluate(ctx)
	if ctx.Err() != nil {
		return
	}
	if len(act) == 0 {
		m.reclaiming = false
		return
	}
	if !m.reclaiming {
		m.reclaiming = true
		first := m.cfg.Thresholds[act[0]]
		name := signals[first.signal].resource
		m.log.Warn("an eviction threshold is met; attempting to reclaim", "resource", name, "signal", first.signal)
		if m.metEvents.Allow() {
			m.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: "EvictionThresholdMet", Message: "Attempting to reclaim " + string(name)})
		}
	}
	// While a pod terminates for a threshold, its usage still counts there.
	if act = m.withoutTermination(act); len(act) == 0 {
		return
	}
	if m.reclaim(ctx, m.cfg.Thresholds[act[0]].signal, disks) {
		seen, disks = m.observe(ctx)
		act = stillMet(m.cfg.Thresholds, act, seen)
	}
	if len(act) > 0 && ctx.Err() == nil {
		m.evict(ctx, m.cfg.Thresholds[act[0]], seen, disks)
	}
}

// evaluate observes the signals and updates the conditions. It returns the thresholds to act upon.
func (m *Manager) evaluate(ctx context.Context) (act []int, seen observations, disks layout) {
	m.observedAt = time.Now()
	seen, disks = m.observe(ctx)
	if ctx.Err() != nil {
		return nil, nil, layout{}
	}
	m.arm(seen)
	var has map[v1.NodeConditionType]bool
	m.state, has, act = m.state.next(m.cfg.Thresholds, seen, m.cfg.PressureTransitionPeriod, time.Now())
	m.setConditions(has)
	return act, seen, disks
}

// observe observes the signals. It logs an error once, not at each synchronization.
func (m *Manager) observe(ctx context.Context) (observations, layout) {
	seen, disks, err := m.reader.observe(ctx)
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case ctx.Err() != nil || text == m.observeError:
		return seen, disks
	case err != nil:
		m.log.Warn("some eviction signals can't be observed; no pod is evicted for them", "error", err)
	default:
		m.log.Info("all eviction signals can be observed again")
	}
	m.observeError = text
	return seen, disks
}

// setConditions sets the conditions, and logs and reports changes.
func (m *Manager) setConditions(has map[v1.NodeConditionType]bool) {
	before := m.get()
	changed := false
	for _, c := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if before[c] != has[c] {
			changed = true
			m.log.Info("node condition changed", "condition", c, "status", has[c])
		}
	}
	m.set(has)
	if changed {
		m.cfg.PressureChanged()
	}
}
