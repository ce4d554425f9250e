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

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// EventType is what happened to a pod; the names are the kubelet's.
type EventType string

// The event types.
const (
	ContainerStarted EventType = "ContainerStarted"
	ContainerDied    EventType = "ContainerDied"
	ContainerRemoved EventType = "ContainerRemoved"
	ContainerChanged EventType = "ContainerChanged"
	// PodSync is: the runtime says that something happened to the pod.
	PodSync EventType = "PodSync"
)

// Event is one change of one container or sandbox, or of something of a pod.
type Event struct {
	UID  types.UID
	Type EventType
	// ID is the container's or sandbox's. Empty for PodSync.
	ID string
}

// Runtime is the part of the runtime that is read.
type Runtime interface {
	// List is all pods, as far as lists tell.
	List(ctx context.Context) ([]*observed.Pod, error)
	// Status is one pod in full; empty, but for its UID, if the runtime has nothing of it.
	Status(ctx context.Context, uid types.UID) (*observed.Pod, error)
	// Watch calls changed when something happens to a pod, until the stream breaks or ctx ends, and then returns why. told is the pod as
	// far as the runtime tells how it is now; with nothing but its UID, anything may have happened to it. It calls it with nil once it
	// listens, and if it can't tell to which pod something happened.
	Watch(ctx context.Context, changed func(told *observed.Pod)) error
}

// Exits tells of the ends of processes as the kernel sees them; it is an exits.Watcher.
type Exits interface {
	// Follow has the end of a container's or sandbox's process told, once. It doesn't wait for anybody.
	Follow(id string, pid int) error
	// Forget follows it no longer. An id that isn't followed may be forgotten.
	Forget(id string)
	// Ready gets a value when there are ids to Take.
	Ready() <-chan struct{}
	Take() []string
}

// Config says what to read and how often.
type Config struct {
	Runtime Runtime
	// Exits is who tells of processes that end. Nil means nobody.
	Exits Exits
	// Period is the time between relists while ends may go unnoticed. Zero means 1 s.
	Period time.Duration
	// EventedPeriod is the time between relists while the stream of events stands, or Exits follows all that runs. Zero means 30 s.
	EventedPeriod time.Duration
	// Clock paces the relists. Nil means the real one.
	Clock clock.WithTicker
	// Metrics is where the kubelet's metrics of its PLEG are registered. Nil means nowhere.
	Metrics prometheus.Registerer
	// Logger gets a line when the runtime or its events can't be read, and when they can again. Nil discards.
	Logger *slog.Logger
}

// unhealthyAfter is how long the runtime may go without a relist that went well, as in the kubelet.
const unhealthyAfter = 3 * time.Minute

// PLEG is safe for concurrent use.
type PLEG struct {
	cfg     Config
	metrics *metrics
	ready   chan struct{}
	// hurry has the next relist come early.
	hurry chan struct{}
	// lagging gets a value when a process is late: its pod is to be signed again.
	lagging chan struct{}

	mu sync.Mutex
	// now numbers relists, and what happens to pods: the lower number came first, whatever the node's clock does.
	now  int64
	pods map[types.UID]*record
	// acting are the pods that somebody acts upon.
	acting map[types.UID]*acting
	// events wait to be taken. synced are the pods with a PodSync among them: one each is enough.
	events []Event
	synced map[types.UID]bool
	// listening is set while the stream of events stands.
	listening bool
	// unfollowed is set once it was said that something can't be followed.
	unfollowed bool
	// listed is set after the first relist that went well; lastErr is what the last one failed with.
	listed  bool
	lastErr error
	// relisted is when Run began, and then the beginning of the last relist that went well.
	relisted time.Time
}

// New returns a PLEG that has read nothing yet.
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

// Run relists, listens, and notices what ends, until ctx ends. The first relist comes at once.
func (p *PLEG) Run(ctx context.Context) {
	p.mu.Lock()
	p.relisted = p.cfg.Clock.Now()
	p.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { p.listen(ctx) })
	group.Go(func() { p.notice(ctx) })
	p.relists(ctx)
	group.Wait()
}

// Ready gets a value when there are events to Take, the first time after the first relist that went well, with events or without.
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

// Pods is the last reading of every pod that the runtime has. current is false until the runtime has been read once, and while
// it can't be.
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

// Health is nil if the runtime can be read, and otherwise why it can't.
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

// Stalled is Health with the kubelet's patience, and in its words: nil while a listing has succeeded in the last three minutes, or while
// none had to.
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

// sleep waits for that time, or for early if that isn't nil. It is false if ctx ended before.
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
