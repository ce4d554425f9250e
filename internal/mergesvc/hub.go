package mergesvc

import (
	"context"
	"log/slog"
	"slices"
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

	// conflicts are those that the log knows of.
	logMu     sync.Mutex
	conflicts []string
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
	rev, conflicts := h.merge(set)
	// Outside the lock: a log that blocks must not stop the other sources.
	if rev != nil {
		h.logRevision(rev)
	}
	h.logConflicts(conflicts)
}

func (h *Hub) merge(set manifest.Set) (*revision.Revision, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rev := h.merger.Apply(set)
	if rev != nil {
		h.history.Append(rev)
	}
	return rev, h.merger.Conflicts()
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

// logConflicts writes one line for each conflict that is new, and one when none is left.
func (h *Hub) logConflicts(now []string) {
	h.logMu.Lock()
	defer h.logMu.Unlock()
	for _, c := range now {
		if !slices.Contains(h.conflicts, c) {
			h.log.Warn("pod waits for another one's name or UID", "conflict", c)
		}
	}
	if len(now) == 0 && len(h.conflicts) > 0 {
		h.log.Info("no pod waits for another one's name or UID any more")
	}
	h.conflicts = now
}
