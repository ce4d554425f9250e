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

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/handler"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// Prober asks a container once; handler.Runner is one.
type Prober interface {
	Probe(ctx context.Context, t handler.Target, p *v1.Probe) (outcome handler.Outcome, output string, err error)
}

// Config says whom to ask and by what means.
type Config struct {
	Handlers Prober
	// Observed is the last reading of a pod, without asking the runtime. Nil where there is none.
	Observed func(types.UID) *observed.Pod
	// HostIPs are the node's addresses, the primary one first: pods on the node's network are asked there. Nil: such pods can't be
	// asked over the network.
	HostIPs func() []string
	// Events gets what failing probes said. Nil: nobody is told.
	Events *events.Recorder
	// Metrics is where prober_probe_total and prober_probe_duration_seconds are registered. Nil: nowhere.
	Metrics prometheus.Registerer
	// Clock paces the probes. Nil means the real one.
	Clock clock.Clock
	// Parallel is how many probes may be under way at once; one that takes longer than a second no longer counts. Zero means 64.
	Parallel int
	// Logger gets a line when a verdict changes. Nil discards.
	Logger *slog.Logger
}

// Manager has the probes of all pods. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	metrics *metrics
	// began is when the Manager was made: containers from before were another process's.
	began time.Time
	// woken says that the queue may have something new at its head; ready that changed isn't empty.
	woken, ready chan struct{}
	underWay     sync.WaitGroup

	mu    sync.Mutex
	pods  map[types.UID]*pod
	queue queue
	// slots are the runs under way that count towards Parallel.
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

// Set makes the pod's probes those of its spec; what is known by those that it had stays. Previous is a status from before a restart
// of podexecd, or nil: a container that it calls started or ready begins so if it is still the same. Neither may be changed afterwards.
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

// Ending says that the pod is being ended: whether it has started and is alive is no longer asked, but whether it is ready is, as it
// may still be serving. The verdicts stay as they are. There is no way back.
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

// Remove forgets the pod and breaks off its probes.
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

// Probes is what the probes of the pod's running containers say, new containers included. Containers without probes aren't there.
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

// Ready yields when Take has something. Only one goroutine may wait on it.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// Take returns the pods of which a verdict has changed since the last Take, each once.
func (m *Manager) Take() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := slices.Collect(maps.Keys(m.changed))
	clear(m.changed)
	return uids
}

// look reads what the runtime has of the pod, and lets the probes of each new container begin anew.
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
		// As a reading of the monotonic clock: that the node's clock is set later changes nothing.
		from = now.Add(-age)
	}
	for p := range c.all() {
		m.rest(p)
		p.begin(from)
		if from.Before(m.began) {
			// After a restart all containers are new at once: spread them over a period.
			spread := now.Add(time.Duration(rand.Int64N(int64(p.period()))))
			p.notBefore = later(p.notBefore, spread)
		}
		if p.wanted() {
			m.queue.set(p, now)
		}
	}
	m.wake()
}

// rest breaks off what the probe has under way and takes it out of the queue.
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
	m.metrics.forget(p)
}

// wake makes Run look at the queue.
func (m *Manager) wake() { signal(m.woken) }

// signal leaves word in a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
