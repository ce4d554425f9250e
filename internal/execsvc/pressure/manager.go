package pressure

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/storage"
)

const (
	// period is the time between two looks.
	period = 10 * time.Second
	// endingPeriod is how often it is asked whether an evicted pod is gone, and endingFor how long beyond the time that it has to end.
	endingPeriod, endingFor = time.Second, 30 * time.Second
	// measureFor is how long it may take to find out what pods use.
	measureFor = time.Minute
	// defaultTransition is evictionPressureTransitionPeriod.
	defaultTransition = 5 * time.Minute
	defaultMaxFiles   = 1_000_000
)

// Config says what a Manager watches, and what it can do about it. Functions are called from Run's goroutine only.
type Config struct {
	// Thresholds are those of Parse. None: the node is never short of anything.
	Thresholds []Threshold
	// Transition is evictionPressureTransitionPeriod: how long a condition lasts after there is no reason for it any more. Zero means 5 min.
	Transition time.Duration
	// MaxGrace is evictionMaxPodGracePeriod: how many seconds a pod has at most to end, if it is for a soft threshold. Below zero: as many as it has
	// otherwise.
	MaxGrace int64

	// RootDir is a directory on nodefs. ImageDir tells one on imagefs, from the runtime's ImageFsInfo; nil: images are on nodefs.
	RootDir  string
	ImageDir func(context.Context) (string, error)
	// PodsCgroup is the cgroup of all pods, "/kubepods": its limit has to be more than what is allocatable, by the hard threshold of memory. Empty: what pods
	// use together isn't looked at.
	PodsCgroup string
	// Machine is where the machine's /proc and /sys are. Empty: /.
	Machine string

	// Pods are those that may be evicted: Agent.Evictable.
	Pods func() []*v1.Pod
	// Evict ends a pod, which has so many seconds for it, and is failed then. It is false if the pod was ending already.
	Evict func(uid types.UID, grace int64, why status.Failure) bool
	// Gone tells whether all of an evicted pod has ended, so that what it used is free. Nil: it isn't waited for.
	Gone func(types.UID) bool
	// Stats, Disk (storage.Watcher's Measure), Dir (of an emptyDir) and LogsDir tell what pods use. They are asked only if one has to be evicted.
	Stats   Stats
	Disk    func(context.Context, *v1.Pod) (storage.Usage, error)
	Dir     func(pod *v1.Pod, volume string) string
	LogsDir string
	// MaxFiles is how many of a pod's files are counted, where files are what is short. Zero means a million.
	MaxFiles int
	// DeadContainers and UnusedImages remove what nobody needs from a disk. Nil: there is nothing to remove.
	DeadContainers, UnusedImages func(context.Context) error

	// Changed is told when Pressure is another one. Nil: nobody is.
	Changed func()
	// Event is told what happens to the Node. Nil: nobody is.
	Event func(nodestatus.Event)
	// Evictions counts the evicted pods, by signal: NewEvictions. Nil: nobody does.
	Evictions *prometheus.CounterVec
	// Logger is told when the node begins and ceases to be short of something, and why that can't be found out. Nil discards.
	Logger *slog.Logger
}

// Manager watches over the node's resources.
type Manager struct {
	cfg Config
	log *slog.Logger

	// The rest but has is of Run's goroutine, and before that Begin's. trouble is what couldn't be read in the last look; stuck is set if what
	// nobody needs couldn't all be removed when that was last tried, and blind if it wasn't known then what all pods use.
	reader                      reader
	state                       state
	begun, acting, stuck, blind bool
	trouble                     string

	mu  sync.Mutex
	has map[v1.NodeConditionType]bool
}

// New returns a Manager that hasn't looked yet.
func New(cfg Config) *Manager {
	if cfg.Transition == 0 {
		cfg.Transition = defaultTransition
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = defaultMaxFiles
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Evictions == nil {
		cfg.Evictions = NewEvictions(nil)
	}
	return &Manager{
		cfg: cfg, log: cfg.Logger,
		reader: reader{root: cfg.Machine, dir: cfg.RootDir, podsCgroup: cfg.PodsCgroup, imageDir: cfg.ImageDir, stat: statfs},
	}
}

// NewEvictions is kubelet_evictions, which storage.Watcher shares. A nil Registerer: it is shown nowhere.
func NewEvictions(r prometheus.Registerer) *prometheus.CounterVec {
	count := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "kubelet_evictions", Help: "Pods that were evicted, by signal."}, []string{"eviction_signal"},
	)
	if r != nil {
		r.MustRegister(count)
	}
	return count
}

// Pressure is what the node is short of, as of the last look.
func (m *Manager) Pressure() nodestatus.Pressure {
	has := m.conditions()
	return nodestatus.Pressure{Memory: has[v1.NodeMemoryPressure], Disk: has[v1.NodeDiskPressure], PID: has[v1.NodePIDPressure]}
}

// conditions mustn't be changed.
func (m *Manager) conditions() map[v1.NodeConditionType]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.has
}

// Begin looks once, so that Pressure and Admit know before the first pod comes, and does nothing about it: Run's first look is a period later
// then. It is called before Run, if at all.
func (m *Manager) Begin(ctx context.Context) {
	if len(m.cfg.Thresholds) > 0 {
		m.judge(ctx)
		m.begun = true
	}
}

// Run watches until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	if len(m.cfg.Thresholds) == 0 {
		<-ctx.Done()
		return
	}
	if m.begun {
		pause(ctx, period)
	}
	for ctx.Err() == nil {
		uid, grace := m.look(ctx)
		if uid != "" && m.cfg.Gone != nil {
			m.await(ctx, uid, time.Duration(grace)*time.Second+endingFor)
			continue
		}
		pause(ctx, period)
	}
}

// await waits for the end of an evicted pod: what it used counts until then, and another one would be evicted for it.
func (m *Manager) await(ctx context.Context, uid types.UID, most time.Duration) {
	for waited := time.Duration(0); waited < most && ctx.Err() == nil; waited += endingPeriod {
		pause(ctx, endingPeriod)
		if m.cfg.Gone(uid) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// look reads what is available, and does what follows from it. It names the pod that it has evicted, if any, and the
// seconds that this has to end.
func (m *Manager) look(ctx context.Context) (evicted types.UID, grace int64) {
	act, seen, dedicated := m.judge(ctx)
	if ctx.Err() != nil {
		return "", 0
	}
	if len(act) == 0 {
		m.acting = false
		return "", 0
	}
	name := kinds[m.cfg.Thresholds[act[0]].signal].resource
	if !m.acting {
		m.acting = true
		m.log.Warn("the node is short of a resource; what can be spared has to go", "resource", name, "signal", m.cfg.Thresholds[act[0]].signal)
		m.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: "EvictionThresholdMet", Message: "Attempting to reclaim " + string(name)})
	}
	if m.reclaim(ctx, m.cfg.Thresholds[act[0]].signal, dedicated) {
		seen, dedicated = m.observe(ctx)
		act = still(m.cfg.Thresholds, act, seen)
	}
	if len(act) == 0 || ctx.Err() != nil {
		return "", 0
	}
	return m.evict(ctx, m.cfg.Thresholds[act[0]], seen, dedicated)
}

// judge reads what is available, and has the conditions known that the node has for it. It returns the thresholds to act upon.
func (m *Manager) judge(ctx context.Context) (act []int, seen observations, dedicated bool) {
	seen, dedicated = m.observe(ctx)
	if ctx.Err() != nil {
		return nil, nil, false
	}
	var has map[v1.NodeConditionType]bool
	m.state, has, act = m.state.next(m.cfg.Thresholds, seen, m.cfg.Transition, time.Now())
	m.show(has)
	return act, seen, dedicated
}

// observe reads, and tells once what can't be read.
func (m *Manager) observe(ctx context.Context) (observations, bool) {
	seen, dedicated, err := m.reader.observe(ctx)
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case ctx.Err() != nil || text == m.trouble:
		return seen, dedicated
	case err != nil:
		m.log.Warn("not all can be read of what the node has left; pods aren't evicted for the rest", "error", err)
	default:
		m.log.Info("what the node has left can be read again")
	}
	m.trouble = text
	return seen, dedicated
}

// show has the conditions known.
func (m *Manager) show(has map[v1.NodeConditionType]bool) {
	before := m.conditions()
	changed := false
	for _, c := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if before[c] != has[c] {
			changed = true
			m.log.Info("a condition of the node has changed", "condition", c, "status", has[c])
		}
	}
	m.mu.Lock()
	m.has = has
	m.mu.Unlock()
	if changed {
		m.cfg.Changed()
	}
}
