package objects

import (
	"context"
	"log/slog"
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
)

// Config says what a Hub follows, and how much it remembers.
type Config struct {
	// History has the pods. It is required.
	History *history.History
	// Merge has the pods of a set merged and published when it returns. Apply calls it between what the set adds to the objects and
	// what it takes away. Nil: whoever calls Apply has the pods merged right after it.
	Merge func(manifest.Set)
	// Revisions is how many are kept for exact history. Zero means 1024.
	Revisions int
	// Bytes is how much memory the values may take, roughly, that are kept only for those revisions. The newest revision is kept in
	// any case. Zero means 64 MiB.
	Bytes int
	// SourceObjects is how many objects the sets of one source may have, and SourceBytes how large they may be together. What is over
	// that isn't used, as a finding tells. Zero means 20,000, and 256 MiB.
	SourceObjects, SourceBytes int
	// Logger gets a line when an object that is referred to changes or is missing, and for each object that is there twice. Nil discards.
	Logger *slog.Logger
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// Hub is where all objects come in. It is safe for concurrent use.
type Hub struct {
	cfg      Config
	log      *slog.Logger
	instance string

	mu      sync.RWMutex
	sources map[string]*source
	// nodes has the objects that pods of each node refer to, or did within the ring.
	nodes map[string]map[Ref]*entry
	// pods are the current ones that refer to anything.
	pods map[types.UID]*pod
	// podRevision is the last revision of the pods' history that is in.
	podRevision uint64

	// recent are the last revisions, oldest first, without gaps; number is the last one. Whatever ended after floor is in the index
	// still; floorPods is the podRevision there.
	recent           []*revisionOf
	number           uint64
	floor, floorPods uint64
	// bytes is what is kept for recent.
	bytes int
	// appended is closed, and replaced, by each revision.
	appended chan struct{}
}

// New returns a Hub that has the pods which the history has now. Run keeps it so.
func New(cfg Config) *Hub {
	if cfg.Revisions == 0 {
		cfg.Revisions = 1024
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = 64 << 20
	}
	if cfg.SourceObjects == 0 {
		cfg.SourceObjects = 20_000
	}
	if cfg.SourceBytes == 0 {
		cfg.SourceBytes = 256 << 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	h := &Hub{
		cfg: cfg, log: cfg.Logger, instance: uuid.NewString(), sources: map[string]*source{}, nodes: map[string]map[Ref]*entry{},
		pods: map[types.UID]*pod{}, appended: make(chan struct{}),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resync()
	h.floorPods = h.podRevision
	return h
}

// Instance is the life of the revision numbers: this process's.
func (h *Hub) Instance() string { return h.instance }

// Number is the last revision; zero if there was none.
func (h *Hub) Number() uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.number
}

// Run follows the pods' history until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	for {
		select {
		case <-h.Advance():
		case <-ctx.Done():
			return
		}
	}
}

// Advance takes in what the pods' history has now. The channel is closed when it has more.
func (h *Hub) Advance() (more <-chan struct{}) {
	h.mu.RLock()
	rev, kept, more := h.cfg.History.Next(h.podRevision)
	h.mu.RUnlock()
	if rev == nil && kept {
		return more
	}
	more, told := h.lockedAdvance()
	h.tell(told)
	return more
}

func (h *Hub) lockedAdvance() (more <-chan struct{}, told []line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.advance()
}

// advance does so for a caller that holds mu.
func (h *Hub) advance() (more <-chan struct{}, told []line) {
	for {
		rev, kept, more := h.cfg.History.Next(h.podRevision)
		switch {
		case !kept:
			told = append(told, h.resync()...)
		case rev == nil:
			return more, told
		default:
			told = append(told, h.follow(rev)...)
		}
	}
}

// source is the named source's. The caller holds mu.
func (h *Hub) source(name string) *source {
	s := h.sources[name]
	if s == nil {
		s = newSource(name, h.cfg.SourceObjects, h.cfg.SourceBytes)
		h.sources[name] = s
	}
	return s
}
