package history

import (
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Config says how much is remembered, and what there is to begin with.
type Config struct {
	// Life is what revisions are published under at first.
	Life Life
	// Sources are the names of the configured sources, in order of priority.
	Sources []string
	// Start is what an earlier life has left. The zero value: nothing.
	Start Start
	// Revisions is how many are kept for exact history. Zero means 1024.
	Revisions int
	// Bytes is how much memory the pods of those revisions may take, roughly: 4 KiB and three times the protobuf encoding for each.
	// The newest revision is kept in any case. Zero means 64 MiB.
	Bytes int
	// Tombstones is how many removed pods are remembered. Zero means 8192.
	Tombstones int
}

// Life is a time in which revision numbers mean one thing.
type Life struct {
	// Instance is its name; cursors carry it.
	Instance string
	// Temporary is set if it ends with this process: what is published under it isn't stored.
	Temporary bool
}

// Start is what was published before this process.
type Start struct {
	// Instance is what it was published under. Empty: nothing was.
	Instance string
	// Number is the last revision.
	Number uint64
	// Pods are those that were there then.
	Pods []*revision.Pod
	// Tombstones are in order of removal; all removals after Horizon are among them.
	Tombstones []Tombstone
	Horizon    uint64
}

// History is safe for concurrent use.
type History struct {
	cfg Config

	mu   sync.RWMutex
	life Life
	// lives are the names of all lives that this process has published under.
	lives []string
	pods  map[types.UID]*revision.Pod
	// eras are those of the kept revisions, and of the one before them.
	eras eras
	// recent are the last revisions, oldest first, without gaps.
	recent []*revision.Revision
	// bytes is what the pods in recent take.
	bytes int
	// tombs are the removed pods, in order of removal. Every removal after horizon is among them.
	tombs   []Tombstone
	horizon uint64
	number  uint64
	// state is the last current one that was made; it is current still if its number is.
	state *State
	// appended is closed, and replaced, by each append.
	appended chan struct{}

	// making is for who makes a State. It is taken before mu, and never by who appends.
	making sync.Mutex
	// past are the states of the past that were asked for last. Guarded by making.
	past []*State
}

// Tombstone is what is remembered of a removed pod.
type Tombstone struct {
	// Pod has the reference, the node and the digests only.
	Pod *revision.Pod
	// Removed is the revision that removed it.
	Removed uint64
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
		cfg: cfg, life: cfg.Life, lives: []string{cfg.Life.Instance}, pods: map[types.UID]*revision.Pod{},
		number: cfg.Start.Number, tombs: slices.Clone(cfg.Start.Tombstones), horizon: cfg.Start.Horizon,
		appended: make(chan struct{}),
	}
	if cfg.Start.Instance != "" && cfg.Start.Instance != cfg.Life.Instance {
		h.lives = append(h.lives, cfg.Start.Instance)
	}
	for _, p := range cfg.Start.Pods {
		h.pods[p.UID()] = p
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

// Append publishes revisions, in order. The number of each must be one more than that before. They become visible together.
func (h *History) Append(revs ...*revision.Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, rev := range revs {
		h.append(rev)
	}
	close(h.appended)
	h.appended = make(chan struct{})
}

func (h *History) append(rev *revision.Revision) {
	rev.Instance = h.life.Instance
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				delete(h.pods, p.UID())
				h.tombs = append(h.tombs, Tombstone{Pod: Stripped(p), Removed: rev.Number})
			} else {
				h.pods[p.UID()] = p
			}
		}
	}
	for _, p := range rev.Settled {
		h.pods[p.UID()] = p
	}
	h.recent = append(h.recent, rev)
	h.bytes += size(rev)
	over := 0
	for len(h.recent)-over > h.cfg.Revisions || h.bytes > h.cfg.Bytes && over < len(h.recent)-1 {
		h.bytes -= size(h.recent[over])
		over++
	}
	if over > 0 {
		// The slice moves through its array, which is left behind when it is full; what it has left must not stay reachable.
		clear(h.recent[:over])
		h.recent = h.recent[over:]
	}
	h.trimTombstones()
	h.number = rev.Number
	h.eras = h.eras.after(rev, h.number-uint64(len(h.recent)))
}

func (h *History) trimTombstones() {
	if over := len(h.tombs) - h.cfg.Tombstones; over > 0 {
		h.horizon = h.tombs[over-1].Removed
		// States share the array, so it isn't cleared; it is left behind when it is full.
		h.tombs = h.tombs[over:]
	}
}

// Next returns the revision after number, or nil if there is none yet, and a channel that is closed when there are more than
// were there now. kept is false if it is no longer kept, or number was never reached.
func (h *History) Next(number uint64) (rev *revision.Revision, kept bool, more <-chan struct{}) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	first := h.number - uint64(len(h.recent)) + 1
	switch {
	case number == h.number:
		return nil, true, h.appended
	case number > h.number || number+1 < first:
		return nil, false, h.appended
	}
	return h.recent[number+1-first], true, h.appended
}

// WaitingSince is when the revision after number was published, or the oldest one that is kept. Zero if there is none.
func (h *History) WaitingSince(number uint64) time.Time {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if number >= h.number || len(h.recent) == 0 {
		return time.Time{}
	}
	first := h.number - uint64(len(h.recent)) + 1
	return h.recent[max(number+1, first)-first].Published
}

// Begin makes later revisions part of another life. Numbers go on rising.
func (h *History) Begin(life Life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life = life
	if !slices.Contains(h.lives, life.Instance) {
		h.lives = append(h.lives, life.Instance)
	}
	h.state = nil
}

// Life is what revisions are published under now.
func (h *History) Life() Life {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.life
}

// Knows tells whether numbers of the named life mean the same as those of the current one: within a process they do, as
// numbers go on when a life ends.
func (h *History) Knows(instance string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Contains(h.lives, instance)
}

// Number is the last revision; zero if there was none.
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

// SourcesAt is the readiness of the sources that were configured after revision number, then or later. It is false if nobody knows any
// more which those were, as the revisions since aren't kept or were an earlier process's: then it tells of the oldest that are known.
func (h *History) SourcesAt(number uint64) (sources Sources, known bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	e := h.eras.at(number)
	return e.sources, e.from <= number
}

// podOverhead is what a version of a pod takes in memory beside its content.
const podOverhead = 4 << 10

// size is what a revision keeps alive, nearly: its pods, each as an object and in an encoding or two.
func size(rev *revision.Revision) int {
	n := 0
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			n += podOverhead + 3*p.Size()
		}
	}
	return n
}

// Stripped is the pod without its content but for its node, by which it is decided who may know of it.
func Stripped(p *revision.Pod) *revision.Pod {
	return &revision.Pod{
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			UID: p.Object.UID, Namespace: p.Object.Namespace, Name: p.Object.Name,
		}, Spec: v1.PodSpec{NodeName: p.Object.Spec.NodeName}},
		Source: p.Source, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		Created: p.Created, SpecChanged: p.SpecChanged, StatusChanged: p.StatusChanged,
	}
}
