package mergesvc

import (
	"context"
	"log/slog"
	"sync"

	"github.com/google/uuid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Config says what a Hub merges.
type Config struct {
	// Sources are the configured sources, in order of priority; their names are unique.
	Sources []merge.Source
	// Logger gets one line for each change. Nil discards.
	Logger *slog.Logger
	// Revisions and Tombstones are as in history.Config.
	Revisions, Tombstones int
}

// Hub is where all sources' sets come in. It is safe for concurrent use.
type Hub struct {
	log     *slog.Logger
	history *history.History

	mu     sync.Mutex
	merger *merge.Merger
}

// NewHub returns a Hub without pods, under a new instance id.
func NewHub(cfg Config) *Hub {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var names []string
	for _, s := range cfg.Sources {
		names = append(names, s.Name)
	}
	return &Hub{
		log: cfg.Logger, merger: merge.New(cfg.Sources),
		history: history.New(history.Config{
			Instance: uuid.NewString(), Sources: names, Revisions: cfg.Revisions, Tombstones: cfg.Tombstones,
		}),
	}
}

// History is what the Hub publishes to.
func (h *Hub) History() *history.History { return h.history }

// Apply merges one set and publishes what it changes.
func (h *Hub) Apply(set manifest.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rev := h.merger.Apply(set)
	if rev == nil {
		return
	}
	h.history.Append(rev)
	h.logRevision(rev)
}

// Sources is the state of every source, in order of priority.
func (h *Hub) Sources() []merge.SourceState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.merger.Sources()
}

// logRevision writes one line for each pod that changed: that is what one looks for at night.
func (h *Hub) logRevision(rev *revision.Revision) {
	if rev.BecameReady {
		h.log.Info("source is ready", "source", rev.Source, "revision", rev.Number)
	}
	for _, c := range rev.Changes {
		level := slog.LevelInfo
		if c.Op == revision.RECONCILE {
			level = slog.LevelDebug
		}
		if !h.log.Enabled(context.Background(), level) {
			continue
		}
		for _, p := range c.Pods {
			h.log.Log(context.Background(), level, "pod changed", "op", c.Op.String(),
				"pod", p.String(), "uid", p.UID(), "source", p.Source, "revision", rev.Number)
		}
	}
}
