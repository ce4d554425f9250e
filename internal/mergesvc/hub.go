package mergesvc

import (
	"context"
	"log/slog"
	"sync"
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

// Config says what a Hub merges.
type Config struct {
	// Sources are the configured sources, in order of priority; their names are unique.
	Sources []merge.Source
	// Store is where revisions are kept; it keeps as many tombstones as the Hub. Nil: nowhere, so that all it serves is temporary.
	Store *store.Config
	// RetryStore is how often a store that can't be written is tried again. Zero means 5 s.
	RetryStore time.Duration
	// Durable is told whether what is published is stored: at the start, and when that changes. It must not block. Nil: nobody is.
	Durable func(bool)
	// Logger gets one line for each change. Nil discards.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *metrics.Metrics
	// Tracer makes the spans of merge and commit. Nil makes none.
	Tracer trace.Tracer
	// Clock tells the time. Nil means the real one.
	Clock clock.WithTicker
	// Revisions, Bytes and Tombstones are as in history.Config.
	Revisions, Bytes, Tombstones int
}

// Hub is where all sources' sets come in. It is safe for concurrent use.
//
// A set goes through two locks: mu, under which it is merged and its revision queued, and publishing, under which what is queued
// is stored and published. While one caller waits for the disk the others merge, and the next one to publish takes all that has
// been queued in one commit. The order of locks is publishing, then mu; nobody waits for the disk with mu.
type Hub struct {
	cfg     Config
	log     *slog.Logger
	history *history.History
	keeper  *keeper

	mu     sync.Mutex
	merger *merge.Merger
	queue  []*merged

	publishing sync.Mutex

	// conflicts are those that the log knows of.
	logMu     sync.Mutex
	conflicts []string
}

// merged is a revision on its way from merge to publication.
type merged struct {
	rev        *revision.Revision
	start, end time.Time
	span       trace.Span
}

// NewHub returns a Hub that has what its store has. A store that can't be used is no failure: the Hub then serves from memory.
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
	keeper, stored, life := openKeeper(cfg)
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
			Life: life, Sources: names, Revisions: cfg.Revisions, Bytes: cfg.Bytes, Tombstones: cfg.Tombstones,
			Start: history.Start{Instance: stored.Instance, Number: stored.Number, Pods: stored.Pods, Tombstones: stored.Tombstones, Horizon: stored.Horizon},
		}),
	}
	h.begin(life)
	return h
}

// begin makes what is published from now on part of a life.
func (h *Hub) begin(life history.Life) {
	h.history.Begin(life)
	if h.cfg.Durable != nil {
		h.cfg.Durable(!life.Temporary)
	}
}

// History is what the Hub publishes to.
func (h *Hub) History() *history.History { return h.history }

// Apply merges one set, and returns when what it changes is stored and published.
func (h *Hub) Apply(set manifest.Set) {
	changed, conflicts := h.merge(func(m *merge.Merger) *revision.Revision { return m.Apply(set) })
	if changed {
		h.publish()
	}
	h.logConflicts(conflicts)
}

// Configure makes these the configured sources, in order of priority, and returns when that is stored and published; their names are
// unique. See merge.Merger.Configure. Sets of sources that aren't configured are ignored, so whoever adds one reads it after this.
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

// merge lets the Merger change, and queues the revision.
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

// publish stores and publishes what is queued. On return the caller's revision is published, by itself or by another.
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
	if life, changed := h.keeper.commit(revs); changed {
		h.begin(life)
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

// Run tries again to use a store that couldn't be used, until ctx ends; then it closes the store.
func (h *Hub) Run(ctx context.Context) {
	defer h.close()
	ticker := h.cfg.Clock.NewTicker(h.cfg.RetryStore)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			h.retryStore()
		}
	}
}

func (h *Hub) retryStore() {
	if !h.history.Life().Temporary {
		return
	}
	h.publishing.Lock()
	defer h.publishing.Unlock()
	if life, ok := h.keeper.restore(h.history.State()); ok {
		h.begin(life)
	}
}

// close makes what comes later temporary.
func (h *Hub) close() {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	if life, changed := h.keeper.close(); changed {
		h.begin(life)
	}
}

// Sources is the state of every source, in order of priority.
func (h *Hub) Sources() []merge.SourceState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.merger.Sources()
}

// Preview tells what a source's origins would change if they were as given, and what is wrong with them. Those that are named
// in gone would be gone, all others are as they are. Nothing is applied. It fails for a source that isn't configured or hasn't
// been read yet.
func (h *Hub) Preview(source string, origins []*manifest.Origin, gone []string) (merge.Preview, error) {
	h.mu.Lock()
	merger := h.merger.Clone()
	h.mu.Unlock()
	return merger.Preview(source, origins, gone, h.cfg.Clock.Now())
}
