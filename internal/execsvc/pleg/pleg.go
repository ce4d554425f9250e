package pleg

import (
	"context"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// EventType is what happened to a pod's container; the names are the kubelet's.
type EventType string

// The event types.
const (
	ContainerStarted EventType = "ContainerStarted"
	ContainerDied    EventType = "ContainerDied"
	ContainerRemoved EventType = "ContainerRemoved"
	ContainerChanged EventType = "ContainerChanged"
)

// Event is one change of one container or sandbox.
type Event struct {
	UID  types.UID
	Type EventType
	// ID is the container's or sandbox's.
	ID string
}

// Lister is the part of the runtime that is read.
type Lister interface {
	List(ctx context.Context) ([]*observed.Pod, error)
	Status(ctx context.Context, uid types.UID) (*observed.Pod, error)
}

// Config says what to read and how often.
type Config struct {
	Runtime Lister
	// Period is the time between relists. Zero means 1 s.
	Period time.Duration
	// Clock paces the relists. Nil means the real one.
	Clock clock.WithTicker
	// Logger gets a line when the runtime can't be read, and when it can again. Nil discards.
	Logger *slog.Logger
}

// PLEG is safe for concurrent use.
type PLEG struct {
	cfg   Config
	ready chan struct{}

	mu sync.Mutex
	// pods are the last readings. One that Refresh found gone stays, empty, until a relist that began later: a relist under way
	// may still have seen it.
	pods map[types.UID]*observed.Pod
	// events wait to be taken.
	events []Event
	// listed is set after the first relist that went well; lastErr is what the last one failed with.
	listed  bool
	lastErr error
}

// New returns a PLEG that has read nothing yet.
func New(cfg Config) *PLEG {
	if cfg.Period == 0 {
		cfg.Period = time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &PLEG{cfg: cfg, ready: make(chan struct{}, 1), pods: map[types.UID]*observed.Pod{}}
}

// Run relists until ctx ends, the first time at once.
func (p *PLEG) Run(ctx context.Context) {
	ticker := p.cfg.Clock.NewTicker(p.cfg.Period)
	defer ticker.Stop()
	for {
		p.relist(ctx)
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
	}
}

// Ready gets a value when there are events to Take, and after the first relist.
func (p *PLEG) Ready() <-chan struct{} { return p.ready }

// Take returns the events since the last Take, oldest first.
func (p *PLEG) Take() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events = nil
	return events
}

// Pods is the last reading of every pod that the runtime has. current is false until the runtime has been read once, and while
// it can't be.
func (p *PLEG) Pods() (pods []*observed.Pod, current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*observed.Pod, 0, len(p.pods))
	for _, pod := range p.pods {
		if len(pod.Sandboxes) > 0 || len(pod.Containers) > 0 {
			out = append(out, pod)
		}
	}
	return out, p.listed && p.lastErr == nil
}

// Get is the last reading of one pod, or nil if the runtime doesn't have it.
func (p *PLEG) Get(uid types.UID) *observed.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[uid]
}

// Health is nil if the last relist went well, and otherwise why it didn't.
func (p *PLEG) Health() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastErr
}

// Refresh reads one pod in full, now.
func (p *PLEG) Refresh(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	pod, err := p.cfg.Runtime.Status(ctx, uid)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.pods[uid]; old != nil && old.ReadAt.After(pod.ReadAt) {
		return pod, nil
	}
	p.pods[uid] = pod
	return pod, nil
}

func (p *PLEG) relist(ctx context.Context) {
	began := p.cfg.Clock.Now()
	pods, err := p.cfg.Runtime.List(ctx)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.lastErr == nil {
			p.cfg.Logger.Error("the container runtime can't be read; pods go on as they are until it answers", "error", err)
		}
		p.lastErr = err
		return
	}
	if p.lastErr != nil {
		p.cfg.Logger.Info("the container runtime answers again")
	}
	first := !p.listed
	p.lastErr, p.listed = nil, true
	p.take(pods, began)
	if first || len(p.events) > 0 {
		select {
		case p.ready <- struct{}{}:
		default:
		}
	}
}

// take puts a full reading in place of the last, and notes what changed. A pod that was read again after this reading began
// keeps its newer state.
func (p *PLEG) take(pods []*observed.Pod, began time.Time) {
	there := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		there[pod.UID] = true
		old := p.pods[pod.UID]
		if old != nil && old.ReadAt.After(began) {
			continue
		}
		if events := Compare(old, pod); len(events) > 0 {
			p.events = append(p.events, events...)
			p.pods[pod.UID] = pod
		}
	}
	for uid, old := range p.pods {
		if !there[uid] && !old.ReadAt.After(began) {
			p.events = append(p.events, Compare(old, nil)...)
			delete(p.pods, uid)
		}
	}
}
