package mergesvc

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// Config is the configuration of a Hub.
type Config struct {
	// Sources are the configured sources, in order of priority; their names are unique.
	Sources []merge.Source
	// Store is where revisions are stored, with as many tombstones as the Hub keeps. Nil: nowhere; every instance is
	// temporary.
	Store *store.Config
	// RetryStore is how often the store is checked, and tried again if it can't be written. Zero means 5 s.
	RetryStore time.Duration
	// Durable is called with whether published revisions are stored: at the start, and when that changes. It must not
	// block. Nil is not called.
	Durable func(bool)
	// Logger gets one line for each change. Nil discards.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *metrics.Metrics
	// Tracer makes the spans of merge and commit. Nil makes none.
	Tracer trace.Tracer
	// Clock is the clock. Nil means the real one.
	Clock clock.WithTicker
	// Revisions, Bytes and Tombstones are as in history.Config.
	Revisions, Bytes, Tombstones int
}

// Hub merges the sets of all sources. It is safe for concurrent use. The package documentation describes its locks.
type Hub struct {
	cfg     Config
	log     *slog.Logger
	history *history.History
	keeper  *keeper

	mu     watchedMutex
	merger *merge.Merger
	queue  []*merged

	publishing watchedMutex
	// onDisk is set while the holder of publishing waits for the store's disk.
	onDisk atomic.Bool

	// conflicts are the ones that were logged last.
	logMu     sync.Mutex
	conflicts []string

	// rewound is set once Rewound has renewed the instance. publishing guards it.
	rewound bool
}

// merged is a revision on its way from merge to publication.
type merged struct {
	rev        *revision.Revision
	start, end time.Time
	span       trace.Span
}

// NewHub returns a Hub with the pods of its store. If the store can't be used, the Hub serves from memory.
func NewHub(cfg Config) *Hub {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = metrics.New()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.RetryStore == 0 {
		cfg.RetryStore = 5 * time.Second
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noTracer()
	}
	if cfg.Store != nil {
		kept := *cfg.Store
		kept.Tombstones = cfg.Tombstones
		cfg.Store = &kept
	}
	keeper, stored, instance := openKeeper(cfg)
	var names []string
	for _, s := range cfg.Sources {
		names = append(names, s.Name)
	}
	complete := map[string]bool{}
	for name := range stored.ReadySources {
		complete[name] = true
	}
	h := &Hub{
		cfg: cfg, log: cfg.Logger, keeper: keeper,
		merger: merge.New(cfg.Sources, merge.Stored{Number: stored.Number, Pods: stored.Pods, Complete: complete}),
		history: history.New(history.Config{
			Instance: instance, Sources: names, Revisions: cfg.Revisions, Bytes: cfg.Bytes, Tombstones: cfg.Tombstones,
			Start: history.Start{Instance: stored.Instance, Number: stored.Number, Pods: stored.Pods, Tombstones: stored.Tombstones, Horizon: stored.Horizon, Positions: stored.Positions},
		}),
	}
	h.begin(instance)
	return h
}

// begin publishes later revisions under life.
func (h *Hub) begin(instance history.Instance) {
	h.history.Begin(instance)
	if h.cfg.Durable != nil {
		h.cfg.Durable(!instance.Temporary)
	}
}

// History is the history that the Hub publishes to.
func (h *Hub) History() *history.History { return h.history }

// Apply merges one set, and returns when the resulting revision is stored and published.
func (h *Hub) Apply(set manifest.Set) {
	changed, conflicts := h.merge(func(m *merge.Merger) *revision.Revision { return m.Apply(set) })
	if changed {
		h.publish()
	}
	if set.Err == nil {
		// Not before its revision is published.
		h.history.Read(set.Source, changed, set.Progress)
	}
	h.logConflicts(conflicts)
}

// Configure replaces the configured sources, and returns when the resulting revision is stored and published. sources
// are in order of priority; their names are unique. See merge.Merger.Configure. Sets of sources that aren't
// configured are ignored: start a new source after this call.
func (h *Hub) Configure(sources []merge.Source) {
	var before, after []merge.SourceState
	changed, conflicts := h.merge(func(m *merge.Merger) *revision.Revision {
		before = m.Sources()
		rev := m.Configure(sources)
		if rev != nil {
			rev.Observed = h.cfg.Clock.Now()
		}
		after = m.Sources()
		return rev
	})
	if changed {
		h.publish()
	}
	h.logConfigured(before, after)
	h.logConflicts(conflicts)
}

// merge calls change with the Merger, and queues the revision that it returns.
func (h *Hub) merge(change func(*merge.Merger) *revision.Revision) (changed bool, conflicts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	start := h.cfg.Clock.Now()
	rev := change(h.merger)
	end := h.cfg.Clock.Now()
	h.cfg.Metrics.MergeSeconds.Observe(end.Sub(start).Seconds())
	if rev != nil {
		h.queue = append(h.queue, &merged{rev: rev, start: start, end: end})
	}
	return rev != nil, h.merger.Conflicts()
}

// publish stores and publishes the queue. When it returns, the caller's revision is published, by this call or a
// concurrent one.
func (h *Hub) publish() {
	revs := h.publishQueue()
	// Outside the locks: a log that blocks must not stop the other sources.
	for _, rev := range revs {
		h.logRevision(rev)
	}
}

func (h *Hub) publishQueue() []*revision.Revision {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	h.mu.Lock()
	queue := h.queue
	h.queue = nil
	h.mu.Unlock()
	if len(queue) == 0 {
		return nil
	}
	var revs []*revision.Revision
	for _, m := range queue {
		h.startSpan(m)
		revs = append(revs, m.rev)
	}
	start := h.cfg.Clock.Now()
	var instance history.Instance
	var changed bool
	h.withDisk(func() { instance, changed = h.keeper.commit(revs) })
	if changed {
		h.begin(instance)
	}
	now := h.cfg.Clock.Now()
	for _, m := range queue {
		m.rev.Published = now
		h.endSpan(m, start, now)
		h.count(m.rev)
	}
	failpoint.Reached(failpoint.BeforePublish)
	h.history.Append(revs...)
	return revs
}

func (h *Hub) count(rev *revision.Revision) {
	for _, c := range rev.Changes {
		h.cfg.Metrics.Ops.WithLabelValues(c.Source, c.Op.String()).Add(float64(len(c.Pods)))
	}
}

// Run checks the store, and retries one that couldn't be used, until ctx ends. Then it closes the store.
func (h *Hub) Run(ctx context.Context) {
	defer h.close()
	ticker := h.cfg.Clock.NewTicker(h.cfg.RetryStore)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			h.hang()
			h.tendStore()
		}
	}
}

// tendStore detects that the store's file was removed, even while nothing changes, and writes the whole state to a
// store that can be used again.
func (h *Hub) tendStore() {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	var instance history.Instance
	var changed bool
	h.withDisk(func() { instance, changed = h.keeper.check() })
	if changed {
		h.begin(instance)
	}
	if !h.history.Instance().Temporary {
		return
	}
	state := h.history.State()
	h.withDisk(func() { instance, changed = h.keeper.restore(state) })
	if changed {
		h.begin(instance)
	}
}

// close closes the store. Later revisions are temporary.
func (h *Hub) close() {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	var instance history.Instance
	var changed bool
	h.withDisk(func() { instance, changed = h.keeper.close() })
	if changed {
		h.begin(instance)
	}
}

// Sources is the state of every source, in order of priority.
func (h *Hub) Sources() []merge.SourceState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.merger.Sources()
}

// Preview returns the changes and findings that would result if the source had the given origins, and none named in
// gone. Its other origins stay as they are. Nothing is applied. It returns an error for a source that isn't
// configured or hasn't been read yet.
func (h *Hub) Preview(source string, origins []*manifest.Origin, gone []string) (merge.Preview, error) {
	h.mu.Lock()
	merger := h.merger.Clone()
	h.mu.Unlock()
	return merger.Preview(source, origins, gone, h.cfg.Clock.Now())
}
