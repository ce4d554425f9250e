package logrotation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// Runtime is the runtime service of the CRI.
type Runtime interface {
	ReopenContainerLog(ctx context.Context, containerID string) error
}

// Config configures a Manager.
type Config struct {
	Runtime Runtime
	// Pods returns this agent's pods in the runtime, as last read.
	Pods func() []*observed.Pod
	// LogsDir is the absolute path of the pods' logs.
	LogsDir string
	// MaxSize is containerLogMaxSize in bytes: the size from which a log is rotated. Below zero, none is.
	MaxSize int64
	// MaxFiles is containerLogMaxFiles: how many files a log has at most, more than 1.
	MaxFiles int
	// Workers is containerLogMaxWorkers: how many logs are rotated at a time, and how many compressed. Zero means 1.
	Workers int
	// Interval is containerLogMonitorInterval: the longest time between two looks at a log. Zero means the kubelet's 10
	// s.
	Interval time.Duration
	// ReopenTimeout is the time limit of a call to the runtime. Zero means 10 s.
	ReopenTimeout time.Duration
	// CompressTimeout is the time limit of the compression of one file. Zero means 30 s, and a second more for each 4 MiB
	// of MaxSize.
	CompressTimeout time.Duration
	// Clock is the clock of looks, pauses and names. Nil means the real one.
	Clock clock.Clock
	// Logger receives a line when the rotation of a container's log begins to fail, and when it succeeds again. Nil
	// discards them.
	Logger *slog.Logger
}

// Manager rotates logs.
type Manager struct {
	cfg Config
	log *slog.Logger

	mu sync.Mutex
	// logs are by container ID.
	logs map[string]*containerLog
	// due are the logs to be rotated or repaired, and uncompressed those with files to compress.
	due, uncompressed queue
	// changed wakes Run: a worker has set when a log is looked at next.
	changed chan struct{}
	// worked is when the runtime last opened a new log, and outages how many calls failed since, as if it were down.
	worked  time.Time
	outages int
	// updated is when the containers were last read. Only Run uses it.
	updated time.Time
}

// New returns a Manager that does nothing before Run.
func New(cfg Config) *Manager {
	if cfg.Workers == 0 {
		cfg.Workers = 1
	}
	if cfg.Interval == 0 {
		cfg.Interval = 10 * time.Second
	}
	if cfg.ReopenTimeout == 0 {
		cfg.ReopenTimeout = 10 * time.Second
	}
	if cfg.CompressTimeout == 0 {
		cfg.CompressTimeout = 30*time.Second + time.Duration(min(cfg.MaxSize>>22, 1<<20))*time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		cfg: cfg, log: cfg.Logger, logs: map[string]*containerLog{}, due: newQueue(), uncompressed: newQueue(),
		changed: make(chan struct{}, 1),
	}
}

// Run rotates logs until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	if m.cfg.MaxSize < 0 {
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	for range m.cfg.Workers {
		all.Go(func() { m.work(ctx, &m.due, func(ctx context.Context, c *containerLog) { m.start(ctx, c, &all) }) })
		all.Go(func() { m.work(ctx, &m.uncompressed, m.compressOne) })
	}
	for {
		timer := m.cfg.Clock.NewTimer(m.lookAtAll(m.cfg.Clock.Now()))
		select {
		case <-timer.C():
		case <-m.changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// work does the queue's work until ctx ends.
func (m *Manager) work(ctx context.Context, q *queue, do func(context.Context, *containerLog)) {
	for {
		m.mu.Lock()
		c := q.take()
		m.mu.Unlock()
		if c != nil {
			do(ctx, c)
			continue
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return
		}
	}
}

// patience is how long a worker waits for a log until it takes the next one, and shortPatience that for a log whose last
// attempt failed.
const patience, shortPatience = 200 * time.Millisecond, 50 * time.Millisecond

// start attends to a log. If that takes long, because a call to the runtime or the disk hangs, it returns before the end,
// so that other logs don't wait. There is one attempt for each container at most.
func (m *Manager) start(ctx context.Context, c *containerLog, all *sync.WaitGroup) {
	most := patience
	m.set(func() {
		if !c.failing.IsZero() {
			most = shortPatience
		}
	})
	done := make(chan struct{})
	all.Go(func() {
		defer close(done)
		m.attend(ctx, c)
	})
	timer := m.cfg.Clock.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
	}
}
