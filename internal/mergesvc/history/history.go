package history

import (
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Config says how much is remembered.
type Config struct {
	// Instance is the life of the revision numbers; cursors carry it.
	Instance string
	// Sources are the names of the configured sources, in order of priority.
	Sources []string
	// Revisions is how many are kept for exact history. Zero means 1024.
	Revisions int
	// Bytes is how much the pods of those revisions may take, by their protobuf encoding; the newest is kept in any case. Zero
	// means 64 MiB.
	Bytes int
	// Tombstones is how many removed pods are remembered. Zero means 8192.
	Tombstones int
}

// History is safe for concurrent use.
type History struct {
	cfg Config

	mu      sync.RWMutex
	pods    map[types.UID]*revision.Pod
	sources Sources
	// recent are the last revisions, oldest first, without gaps.
	recent []*revision.Revision
	// bytes is what the pods in recent take.
	bytes int
	// tombs are the removed pods, in order of removal. Every removal after horizon is among them.
	tombs   []Tombstone
	horizon uint64
	number  uint64
	// state is made when it is first asked for after an append.
	state *State
	// appended is closed, and replaced, by each append.
	appended chan struct{}
}

// Tombstone is what is remembered of a removed pod.
type Tombstone struct {
	// Pod has the reference and digests only.
	Pod *revision.Pod
	// Removed is the revision that removed it.
	Removed uint64
}

// State is everything as it is after one revision. It never changes.
type State struct {
	Instance string
	// Number is the last revision; zero if there was none.
	Number uint64
	// Pods are sorted by namespace, name and UID.
	Pods []*revision.Pod
	Sources
	// Tombstones are the removed pods that are remembered, in order of removal; all removals after Horizon are among them.
	Tombstones []Tombstone
	Horizon    uint64
}

// New returns an empty History.
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
	h := &History{cfg: cfg, pods: map[types.UID]*revision.Pod{}, appended: make(chan struct{})}
	for _, name := range cfg.Sources {
		h.sources = append(h.sources, Source{Name: name})
	}
	return h
}

// Append publishes a revision. Its number must be one more than that before.
func (h *History) Append(rev *revision.Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				delete(h.pods, p.UID())
				h.tombs = append(h.tombs, Tombstone{Pod: stripped(p), Removed: rev.Number})
			} else {
				h.pods[p.UID()] = p
			}
		}
	}
	if rev.BecameReady {
		// States share the slice: it is replaced, never written to.
		h.sources = slices.Clone(h.sources)
		for i := range h.sources {
			if h.sources[i].Name == rev.Source {
				h.sources[i].ReadyRevision = rev.Number
			}
		}
	}
	h.recent = append(h.recent, rev)
	h.bytes += size(rev)
	over := 0
	for len(h.recent)-over > h.cfg.Revisions || h.bytes > h.cfg.Bytes && over < len(h.recent)-1 {
		h.bytes -= size(h.recent[over])
		over++
	}
	if over > 0 {
		h.recent = slices.Clone(h.recent[over:])
	}
	if over := len(h.tombs) - h.cfg.Tombstones; over > 0 {
		h.horizon = h.tombs[over-1].Removed
		h.tombs = slices.Clone(h.tombs[over:])
	}
	h.number, h.state = rev.Number, nil
	close(h.appended)
	h.appended = make(chan struct{})
}

// After returns the revisions after number, oldest first and at most limit, and a channel that is closed when there are more
// than were there now. kept is false if those revisions are no longer kept, or number was never reached.
func (h *History) After(number uint64, limit int) (revs []*revision.Revision, kept bool, more <-chan struct{}) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	first := h.number - uint64(len(h.recent)) + 1
	if number > h.number || number+1 < first {
		return nil, false, h.appended
	}
	revs = h.recent[number+1-first:]
	if len(revs) > limit {
		revs = revs[:limit]
	}
	// The caller gets a slice of its own: the backing array would keep old revisions alive while a slow consumer sends.
	return slices.Clone(revs), true, h.appended
}

// Number is the last revision; zero if there was none.
func (h *History) Number() uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.number
}

// size is what a revision keeps alive, nearly: its pods.
func size(rev *revision.Revision) int {
	n := 0
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			n += p.Object.Size()
		}
	}
	return n
}

// Instance is the life of the revision numbers.
func (h *History) Instance() string { return h.cfg.Instance }

// Sources is the readiness of every source.
func (h *History) Sources() Sources {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.sources
}

// State is the current state. It is shared by all who ask before the next append.
func (h *History) State() *State {
	h.mu.RLock()
	st := h.state
	h.mu.RUnlock()
	if st != nil {
		return st
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == nil {
		h.state = h.snapshot()
	}
	return h.state
}

func (h *History) snapshot() *State {
	st := &State{
		Instance: h.cfg.Instance, Number: h.number, Sources: h.sources,
		Pods: make([]*revision.Pod, 0, len(h.pods)), Tombstones: h.tombs[:len(h.tombs):len(h.tombs)], Horizon: h.horizon,
	}
	for _, p := range h.pods {
		st.Pods = append(st.Pods, p)
	}
	slices.SortFunc(st.Pods, comparePods)
	return st
}

func comparePods(a, b *revision.Pod) int {
	if c := strings.Compare(a.Object.Namespace, b.Object.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(a.Object.Name, b.Object.Name); c != 0 {
		return c
	}
	return strings.Compare(string(a.Object.UID), string(b.Object.UID))
}

// stripped is the pod without its content.
func stripped(p *revision.Pod) *revision.Pod {
	return &revision.Pod{
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			UID: p.Object.UID, Namespace: p.Object.Namespace, Name: p.Object.Name,
		}},
		Source: p.Source, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		Created: p.Created, SpecChanged: p.SpecChanged, StatusChanged: p.StatusChanged,
	}
}
