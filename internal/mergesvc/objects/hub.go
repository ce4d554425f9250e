package objects

import (
	"context"
	"log/slog"
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
)

// Config is the configuration of a Hub.
type Config struct {
	// History has the pods. It is required.
	History *history.History
	// Revisions is how many are kept for exact history. Zero means 1024.
	Revisions int
	// Bytes is roughly how much memory the values may take that are kept only for those revisions. The newest
	// revision is always kept. Zero means 64 MiB.
	Bytes int
	// SourceObjects is how many objects the sets of one source may have, and SourceBytes their total size. Objects
	// over that aren't used; a finding reports them. Zero means 20,000, and 256 MiB.
	SourceObjects, SourceBytes int
	// Logger gets a line when an object that pods refer to changes or is missing, and for each object that is defined
	// twice. Nil discards.
	Logger *slog.Logger
	// Clock is the clock. Nil means the real one.
	Clock clock.PassiveClock
}

// Hub keeps all objects. It is safe for concurrent use.
type Hub struct {
	cfg      Config
	log      *slog.Logger
	instance string

	mu      sync.RWMutex
	sources map[string]*source
	// nodes has the objects that pods of each node refer to, or referred to within the ring.
	nodes map[string]map[Ref]*entry
	// pods are the current pods that have references.
	pods map[types.UID]*pod
	// podRevision is the last revision of the pods' history that was taken in.
	podRevision uint64

	// recent are the last revisions, oldest first, without gaps; number is the last one. The index has all that ended
	// after floor; floorPods is the podRevision there.
	recent           []*revisionOf
	number           uint64
	floor, floorPods uint64
	// index has the Readers of a few nodes.
	index *nodeindex.Index[*Reader]
	// bytes is the memory kept for recent.
	bytes int
	// appended is closed, and replaced, by each revision.
	appended chan struct{}
}

// New returns a Hub with the current pods of the history. Run follows the history.
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
		pods: map[types.UID]*pod{}, index: nodeindex.New[*Reader](0), appended: make(chan struct{}),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resync()
	h.floorPods = h.podRevision
	return h
}

// Instance is the instance of the revision numbers. It ends with this process.
func (h *Hub) Instance() string { return h.instance }

// Number is the last revision, or zero if there was none.
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

// Advance takes in all revisions of the pods' history. The channel is closed when there are more.
func (h *Hub) Advance() (more <-chan struct{}) {
	h.mu.RLock()
	rev, kept, more := h.cfg.History.Next(h.podRevision)
	h.mu.RUnlock()
	if rev == nil && kept {
		return more
	}
	more, lines := h.lockedAdvance()
	h.logLines(lines)
	return more
}

func (h *Hub) lockedAdvance() (more <-chan struct{}, lines []line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.advance()
}

// advance is Advance for a caller that holds mu.
func (h *Hub) advance() (more <-chan struct{}, lines []line) {
	for {
		rev, kept, more := h.cfg.History.Next(h.podRevision)
		switch {
		case !kept:
			lines = append(lines, h.resync()...)
		case rev == nil:
			return more, lines
		default:
			lines = append(lines, h.follow(rev)...)
		}
	}
}

// source returns the named source, and makes it if necessary. The caller holds mu.
func (h *Hub) source(name string) *source {
	s := h.sources[name]
	if s == nil {
		s = newSource(name, h.cfg.SourceObjects, h.cfg.SourceBytes)
		h.sources[name] = s
	}
	return s
}
