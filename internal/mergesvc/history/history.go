package history

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Config is the configuration of a History.
type Config struct {
	// Instance is what revisions are first published under.
	Instance Instance
	// Sources are the names of the configured sources, in order of priority.
	Sources []string
	// Start is the state of the previous process. The zero value: none.
	Start Start
	// Revisions is how many are kept for exact history. Zero means 1024.
	Revisions int
	// Bytes is how much memory the pods of those revisions may take, roughly: 4 KiB and three times the protobuf
	// encoding for each. The newest revision is kept in any case. Zero means 64 MiB.
	Bytes int
	// Tombstones is how many removed pods are kept. Zero means 8192.
	Tombstones int
}

// Start is what was published before this process started.
type Start struct {
	// Instance is the instance of those revisions. Empty: there are none.
	Instance string
	// Number is the last revision.
	Number uint64
	// Pods are the pods after that revision.
	Pods []*revision.Pod
	// Tombstones are in order of removal; all removals after Horizon are among them.
	Tombstones []Tombstone
	Horizon    uint64
	// Positions are those after that revision.
	Positions position.Positions
}

// History is safe for concurrent use.
type History struct {
	cfg Config

	mu       sync.RWMutex
	instance Instance
	// begun is set if the next revision is the first of its instance.
	begun bool
	// instances are the instances that this process has published under.
	instances []string
	// forsaken is the instance that Forsake ended. Nil: none.
	forsaken atomic.Pointer[string]
	pods     map[types.UID]*revision.Pod
	// byNode has the same pods by their nodes, and nodeOf their nodes. moved are those that changed their node since
	// start, the last revision of the previous process.
	byNode map[string]map[types.UID]*revision.Pod
	nodeOf map[types.UID]string
	moved  map[types.UID]bool
	start  uint64
	// index has the Readers of a few nodes. readers counts all Readers since the start.
	index   *nodeindex.Index[*Reader]
	readers uint64
	// eras cover the kept revisions and the one before them.
	eras eras
	// recent are the last revisions, oldest first, without gaps.
	recent []*revision.Revision
	// bytes is what the pods in recent take.
	bytes int
	// tombs are the removed pods, in order of removal. Every removal after horizon is among them.
	tombs   []Tombstone
	horizon uint64
	number  uint64
	// positions are those of the last revision, and progress how far the sources have come since.
	positions position.Positions
	progress  map[string]progress
	// waiting are the Readers that each reading wakes.
	waiting map[*Reader]bool
	// state is the last State of the current revision that was made.
	state *State
	// appended is closed, and replaced, by each append.
	appended chan struct{}
	later    *later
	wide     *wide

	// past are the last States of earlier revisions that were made. All their revisions are kept.
	past []*State

	// inspectors counts the open streams of inspectors. For each revision after shownHorizon, the changes that
	// inspectors could see are known. It is raised before versions that weren't compared are detached. The States
	// share it.
	inspectors   int
	shownHorizon *atomic.Uint64

	// making is held while a State is made. It is taken before mu. Append doesn't take it.
	making sync.Mutex
}

// New returns a History that continues cfg.Start.
func New(cfg Config) *History {
	if cfg.Revisions == 0 {
		cfg.Revisions = 1024
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = 64 << 20
	}
	if cfg.Tombstones == 0 {
		cfg.Tombstones = 8192
	}
	h := &History{
		cfg: cfg, instance: cfg.Instance, instances: []string{cfg.Instance.ID}, pods: map[types.UID]*revision.Pod{},
		byNode: map[string]map[types.UID]*revision.Pod{}, nodeOf: map[types.UID]string{}, moved: map[types.UID]bool{}, start: cfg.Start.Number,
		index:     nodeindex.New[*Reader](cfg.Start.Number),
		positions: cfg.Start.Positions, progress: map[string]progress{}, waiting: map[*Reader]bool{},
		number: cfg.Start.Number, tombs: slices.Clone(cfg.Start.Tombstones), horizon: cfg.Start.Horizon,
		appended: make(chan struct{}), later: &later{}, wide: newWide(), shownHorizon: new(atomic.Uint64),
	}
	h.shownHorizon.Store(cfg.Start.Number)
	if cfg.Start.Instance != "" && cfg.Start.Instance != cfg.Instance.ID {
		h.instances = append(h.instances, cfg.Start.Instance)
	}
	for _, p := range cfg.Start.Pods {
		h.put(nil, p)
	}
	var sources Sources
	for _, name := range cfg.Sources {
		sources = append(sources, Source{Name: name})
	}
	h.eras = eras{{from: cfg.Start.Number, sources: sources}}
	h.trimTombstones()
	h.cfg.Start = Start{}
	return h
}

// Append publishes revisions in order. Each number must be one more than the previous one. They become visible
// together.
func (h *History) Append(revs ...*revision.Revision) {
	dropped, compared := h.publish(revs)
	h.wide.wake(h.wide.first)
	for i, rev := range dropped {
		if known := detach(rev, i >= compared); !known {
			h.raiseShownHorizon(rev.Number)
		}
	}
}

// publish appends the revisions. It returns the dropped revisions, and the index from which on their redacted
// versions have to be compared.
func (h *History) publish(revs []*revision.Revision) (dropped []*revision.Revision, compared int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, rev := range revs {
		dropped = append(dropped, h.append(rev)...)
	}
	if compared = h.firstCompared(dropped); compared > 0 {
		h.raiseShownHorizon(dropped[compared-1].Number)
	}
	h.wakeAll()
	return dropped, compared
}

// wakeAll wakes the readers of Next, and starts a round for those that are woken later. The caller holds mu.
func (h *History) wakeAll() {
	close(h.appended)
	h.appended = make(chan struct{})
	h.wakeLater()
}

// Wake wakes all readers, because something else that streams report has changed.
func (h *History) Wake() {
	h.mu.Lock()
	h.wakeReaders(nodeindex.Concern{Every: true})
	h.wakeAll()
	h.mu.Unlock()
	h.wide.wake(h.wide.first)
}

// append returns the revisions that are dropped. The caller holds mu.
func (h *History) append(rev *revision.Revision) (dropped []*revision.Revision) {
	rev.Instance = h.instance.ID
	h.place(rev)
	h.link(rev)
	var nodes []string
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				nodes = h.remove(nodes, p.UID())
				h.tombs = append(h.tombs, Tombstone{Pod: Stripped(p), Removed: rev.Number})
			} else {
				nodes = h.put(nodes, p)
			}
		}
	}
	for _, p := range rev.Settled {
		h.put(nil, p)
	}
	concern := concernOf(rev, nodes)
	h.index.Add(rev.Number, concern)
	h.recent = append(h.recent, rev)
	h.bytes += size(rev)
	over := 0
	for len(h.recent)-over > h.cfg.Revisions || h.bytes > h.cfg.Bytes && over < len(h.recent)-1 {
		h.bytes -= size(h.recent[over])
		h.index.Drop()
		over++
	}
	if over > 0 {
		dropped = slices.Clone(h.recent[:over])
		// The slice moves through its array, which is abandoned when it is full; dropped revisions must not stay
		// reachable through it.
		clear(h.recent[:over])
		h.recent = h.recent[over:]
	}
	h.trimTombstones()
	h.number = rev.Number
	h.eras = h.eras.after(rev, h.floor())
	h.trimStates()
	concern.Every = concern.Every || h.begun
	h.begun = false
	h.wakeReaders(concern)
	return dropped
}

// trimStates drops the States of revisions that aren't kept any more: each holds a version of every pod.
func (h *History) trimStates() {
	left := func(st *State) bool { return st.Number < h.floor() }
	h.past = slices.DeleteFunc(h.past, left)
	if h.state != nil && left(h.state) {
		h.state = nil
	}
}

// Current is the current version of a pod, or nil if there is none with that UID.
func (h *History) Current(uid types.UID) *revision.Pod {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.pods[uid]
}

// Next returns the revision after number, or nil if there is none yet, and a channel that is closed when another one
// is appended. kept is false if the revision is no longer kept, or number was never reached.
func (h *History) Next(number uint64) (rev *revision.Revision, kept bool, more <-chan struct{}) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	rev, kept = h.next(number)
	return rev, kept, h.appended
}

// next is Next without the channel. The caller holds mu.
func (h *History) next(number uint64) (rev *revision.Revision, kept bool) {
	switch {
	case number == h.number:
		return nil, true
	case number > h.number || number < h.floor():
		return nil, false
	}
	return h.recent[number-h.floor()], true
}

// floor is the last revision that isn't kept. The caller holds mu.
func (h *History) floor() uint64 { return h.number - uint64(len(h.recent)) }

// waitingSince returns when the revision after number, or the oldest one kept, was published. It is zero if there is
// none. The caller holds mu.
func (h *History) waitingSince(number uint64) time.Time {
	if number >= h.number || len(h.recent) == 0 {
		return time.Time{}
	}
	return h.recent[max(number, h.floor())-h.floor()].Published
}

// Number is the last revision, or zero if there was none.
func (h *History) Number() uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.number
}

// Sources is the readiness of every source.
func (h *History) Sources() Sources {
	sources, _ := h.SourcesAt(math.MaxUint64)
	return sources
}

// SourcesAt is the readiness, then or later, of the sources that were configured after revision number. If the
// revisions since aren't kept, or belong to a previous process, it returns the oldest sources that are known, and
// false.
func (h *History) SourcesAt(number uint64) (sources Sources, known bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	e := h.eras.at(number)
	return e.sources, e.from <= number
}
