package probe

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// Prober runs a probe once; handler.Runner is one.
type Prober interface {
	Probe(ctx context.Context, t handler.Target, p *v1.Probe) (outcome handler.Outcome, output string, err error)
}

// Config configures a Manager.
type Config struct {
	Handlers Prober
	// Observed returns the last reading of a pod, without a call to the runtime. Nil if there is none.
	Observed func(types.UID) *observed.Pod
	// HostIPs are the node's IPs, the primary one first: probes of pods with hostNetwork use them. Nil: such pods can't
	// be probed over the network.
	HostIPs func() []string
	// Events gets the outputs of failing probes. Nil: they aren't recorded.
	Events *events.Recorder
	// Metrics is the registry for prober_probe_total and prober_probe_duration_seconds. Nil: none.
	Metrics prometheus.Registerer
	// Clock paces the probes. Nil means the real one.
	Clock clock.Clock
	// Parallel is how many probes may run at once; one that takes longer than a second no longer counts. Zero means 64.
	Parallel int
	// Logger gets a line when a verdict changes. Nil discards.
	Logger *slog.Logger
}

// Manager has the probes of all pods. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	metrics *metrics
	// began is when the Manager was created: older containers were probed by another process.
	began time.Time
	// woken is signaled when the head of the queue may have changed; ready when changed isn't empty.
	woken, ready chan struct{}
	underWay     sync.WaitGroup

	mu    sync.Mutex
	pods  map[types.UID]*pod
	queue queue
	// slots are the running probes that count towards Parallel.
	slots   map[*run]struct{}
	changed map[types.UID]struct{}
}

// New returns a Manager without pods.
func New(cfg Config) *Manager {
	if cfg.HostIPs == nil {
		cfg.HostIPs = func() []string { return nil }
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 64
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), began: cfg.Clock.Now(),
		woken: make(chan struct{}, 1), ready: make(chan struct{}, 1),
		pods: map[types.UID]*pod{}, slots: map[*run]struct{}{}, changed: map[types.UID]struct{}{},
	}
}

// Set sets the pod's probes to those of its spec; the results of unchanged ones stay. Previous is a status from before
// a restart of podexecd, or nil: a container that was started or ready in it stays so if it is still the same. Neither
// may be changed afterwards.
func (m *Manager) Set(spec *v1.Pod, previous *v1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := m.pods[spec.UID]
	if pod == nil {
		pod = newPod()
		m.pods[spec.UID] = pod
	}
	if previous != nil {
		pod.previous = previous
	}
	if pod.spec != spec {
		for _, p := range pod.update(spec) {
			m.drop(p)
		}
	}
	m.look(pod)
	for p := range pod.probes() {
		if p.idle() && p.wanted() {
			m.queue.set(p, m.cfg.Clock.Now())
		}
	}
	m.wake()
}

// Ending records that the pod is being terminated: startup and liveness probes stop, and readiness probes continue,
// because it may still be serving. The verdicts stay as they are. It can't be undone.
func (m *Manager) Ending(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := m.pods[uid]
	if pod == nil {
		return
	}
	pod.ending = true
	for p := range pod.probes() {
		if !p.wanted() {
			m.rest(p)
		}
	}
}

// Remove removes the pod and cancels its probes.
func (m *Manager) Remove(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := m.pods[uid]
	if pod == nil {
		return
	}
	for p := range pod.probes() {
		m.drop(p)
	}
	delete(m.pods, uid)
	delete(m.changed, uid)
}

// Probes returns the verdicts of the pod's running containers, new containers included. Containers without probes are
// left out.
func (m *Manager) Probes(uid types.UID) observed.Probes {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := m.pods[uid]
	if pod == nil {
		return nil
	}
	has := m.look(pod)
	verdicts := observed.Probes{}
	for _, c := range pod.containers {
		if c.running(has) != nil {
			verdicts[c.id] = observed.Probed{Startup: c.verdict(startup), Readiness: c.verdict(readiness), Liveness: c.verdict(liveness)}
		}
	}
	return verdicts
}

// Ready gets a value when Take has pods to return. Only one goroutine may wait on it.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// Take returns the pods whose verdicts have changed since the last Take, each once.
func (m *Manager) Take() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := slices.Collect(maps.Keys(m.changed))
	clear(m.changed)
	return uids
}

// look returns the pod's observed state, and resets the probes of each new container.
func (m *Manager) look(pod *pod) *observed.Pod {
	has := m.cfg.Observed(pod.spec.UID)
	for _, c := range pod.containers {
		if o := c.running(has); o != nil && o.ID != c.id {
			m.adopt(c, o)
		}
	}
	return has
}

func (m *Manager) adopt(c *container, o *observed.Container) {
	c.id = o.ID
	now := m.cfg.Clock.Now()
	from := now // also where the node's clock was set back since
	if age := now.Sub(o.Started); !o.Started.IsZero() && age > 0 {
		// As a reading of the monotonic clock: later changes of the wall clock have no effect.
		from = now.Add(-age)
	}
	for p := range c.all() {
		m.rest(p)
		p.begin(from)
		if from.Before(m.began) {
			// After a restart all containers are new at once: their probes are spread over a period.
			spread := now.Add(time.Duration(rand.Int64N(int64(p.period()))))
			p.notBefore = later(p.notBefore, spread)
		}
		if p.wanted() {
			m.queue.set(p, now)
		}
	}
	m.wake()
}

// rest cancels the probe's run and removes it from the queue.
func (m *Manager) rest(p *probe) {
	if p.run != nil {
		p.run.cancel()
		p.run = nil
	}
	m.queue.remove(p)
}

// drop ends the probe for good.
func (m *Manager) drop(p *probe) {
	m.rest(p)
	m.metrics.drop(p)
}

// wake makes Run look at the queue.
func (m *Manager) wake() { signal(m.woken) }

// signal puts a value into a channel of one, if it is empty.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
