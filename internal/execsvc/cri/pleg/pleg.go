package pleg

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// EventType is the type of a pod's event; the names are the kubelet's.
type EventType string

// The event types.
const (
	ContainerStarted EventType = "ContainerStarted"
	ContainerDied    EventType = "ContainerDied"
	ContainerRemoved EventType = "ContainerRemoved"
	ContainerChanged EventType = "ContainerChanged"
	// PodSync: the runtime has reported a change of the pod.
	PodSync EventType = "PodSync"
)

// Event is a change of one container or sandbox, or an unspecified one of a pod.
type Event struct {
	UID  types.UID
	Type EventType
	// ID is the container's or sandbox's. Empty for PodSync.
	ID string
}

// Runtime has the read calls of the runtime.
type Runtime interface {
	// List returns all pods, with the fields that lists have.
	List(ctx context.Context) ([]*observed.Pod, error)
	// Status returns one pod in full; empty, with its UID, if the runtime has nothing of it.
	Status(ctx context.Context, uid types.UID) (*observed.Pod, error)
	// Watch calls changed at each event of a pod, until the stream breaks or ctx ends, and then returns the reason.
	// reported has the pod's states in the event; with only a UID, anything may have changed. changed gets nil once the
	// stream is open, and for an event without a pod.
	Watch(ctx context.Context, changed func(reported *observed.Pod)) error
}

// Exits reports the ends of processes from the kernel; it is an exits.Watcher.
type Exits interface {
	// Follow reports the end of a container's or sandbox's process, once. It doesn't wait.
	Follow(id string, pid int) error
	// Unfollow stops following it. An ID that isn't followed is ignored.
	Unfollow(id string)
	// Ready gets a value when Take has IDs to return.
	Ready() <-chan struct{}
	Take() []string
}

// Config configures a PLEG.
type Config struct {
	Runtime Runtime
	// Exits reports the ends of processes. Nil means that none are followed.
	Exits Exits
	// Period is the time between relists while ends may be missed. Zero means 1 s.
	Period time.Duration
	// EventedPeriod is the time between relists while the stream of events is open, or Exits follows all running
	// processes. Zero means 30 s.
	EventedPeriod time.Duration
	// Clock paces the relists. Nil means the real one.
	Clock clock.WithTicker
	// Metrics is the registry for the metrics of the kubelet's PLEG. Nil means none.
	Metrics prometheus.Registerer
	// Logger gets a line when the runtime or its events can't be read, and when they can again. Nil discards.
	Logger *slog.Logger
}

// unhealthyAfter is how long the PLEG is healthy without a successful relist, as in the kubelet.
const unhealthyAfter = 3 * time.Minute

// PLEG is safe for concurrent use.
type PLEG struct {
	cfg     Config
	metrics *metrics
	ready   chan struct{}
	// hurry makes the next relist come early.
	hurry chan struct{}
	// lagging gets a value when a process is late: its pod must be marked again.
	lagging chan struct{}

	mu sync.Mutex
	// now numbers relists and marks: the lower number came first, whatever the node's clock does.
	now  int64
	pods map[types.UID]*record
	// acting are the pods that are being changed.
	acting map[types.UID]*acting
	// events wait to be taken. synced are the pods with a PodSync among them: one each is enough.
	events []Event
	synced map[types.UID]bool
	// listening is set while the stream of events is open.
	listening bool
	// unfollowed is set once it was logged that a process can't be followed.
	unfollowed bool
	// listed is set after the first successful relist; lastErr is the error of the last one.
	listed  bool
	lastErr error
	// relisted is the start of Run, and then the start of the last successful relist.
	relisted time.Time
}

// New returns a PLEG without readings.
func New(cfg Config) *PLEG {
	if cfg.Period == 0 {
		cfg.Period = time.Second
	}
	if cfg.EventedPeriod == 0 {
		cfg.EventedPeriod = 30 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &PLEG{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), ready: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		lagging: make(chan struct{}, 1), pods: map[types.UID]*record{}, acting: map[types.UID]*acting{}, synced: map[types.UID]bool{},
	}
}

// Run relists and handles events and ends, until ctx ends. The first relist starts at once.
func (p *PLEG) Run(ctx context.Context) {
	p.mu.Lock()
	p.relisted = p.cfg.Clock.Now()
	p.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { p.listen(ctx) })
	group.Go(func() { p.watchEnds(ctx) })
	p.relists(ctx)
	group.Wait()
}

// Ready gets a value when there are events to Take, the first time after the first successful relist, with events or
// without.
func (p *PLEG) Ready() <-chan struct{} { return p.ready }

// Take returns the events since the last Take, oldest first.
func (p *PLEG) Take() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events = nil
	clear(p.synced)
	return events
}

// Pods returns the last reading of every pod in the runtime. current is false until the runtime has been read once, and
// while it can't be read.
func (p *PLEG) Pods() (pods []*observed.Pod, current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*observed.Pod, 0, len(p.pods))
	for _, r := range p.pods {
		if !isEmpty(r.seen) {
			out = append(out, r.seen)
		}
	}
	return out, p.listed && p.lastErr == nil
}

// Health returns nil if the runtime can be read, and otherwise the reason.
func (p *PLEG) Health() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastErr != nil {
		return p.lastErr
	}
	if since := p.cfg.Clock.Since(p.relisted); !p.relisted.IsZero() && since > unhealthyAfter {
		return fmt.Errorf("the container runtime's pods haven't been listed for %v", since.Round(time.Second))
	}
	return nil
}

// Stalled is Health with the kubelet's threshold and wording: nil if a relist has succeeded in the last three minutes,
// or none was due.
func (p *PLEG) Stalled() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := p.cfg.Clock.Since(p.relisted); !p.relisted.IsZero() && since > unhealthyAfter {
		return fmt.Errorf("pleg was last seen active %v ago; threshold is %v", since.Round(time.Second), unhealthyAfter)
	}
	return nil
}

// poke leaves a value in a channel of one, if there is none.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits for that time, or for early if that isn't nil. It returns false if ctx ended before.
func (p *PLEG) sleep(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := p.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-early:
	case <-ctx.Done():
		return false
	}
	return true
}
