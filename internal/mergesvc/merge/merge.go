package merge

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Source names one configured source.
type Source struct {
	// Name is "file", "http", "oci", "api" or "KIND:NAME".
	Name string
	// Location is the path or URL, for ListSources.
	Location string
}

// Stored is the state before the restart of podconfigd.
type Stored struct {
	// Number is the last revision.
	Number uint64
	// Pods are the pods that were served. They are stale until their source is read.
	Pods []*revision.Pod
	// Complete has the sources all of whose pods were known.
	Complete map[string]bool
}

// Merger holds the merged state. Its methods must not be called concurrently.
type Merger struct {
	// sources are the configured ones, in order of priority, and after them the former ones, which only the store
	// has.
	sources []*source
	claims  claims
	// served are the pods that consumers were sent.
	served map[types.UID]*revision.Pod
	number uint64
}

// New returns a Merger with the stored pods. sources are in order of priority; their names are unique.
func New(sources []Source, stored Stored) *Merger {
	m := &Merger{claims: newClaims(), served: map[types.UID]*revision.Pod{}, number: stored.Number}
	for _, s := range sources {
		m.sources = append(m.sources, &source{Source: s, byName: map[string]*origin{}, restored: stored.Complete[s.Name]})
	}
	for _, name := range slices.Sorted(maps.Keys(stored.Complete)) {
		if stored.Complete[name] && m.source(name) == nil {
			m.addFormer(name, true)
		}
	}
	for _, p := range stored.Pods {
		m.restore(p)
	}
	return m
}

// Apply merges one set and returns the resulting revision, or nil if nothing changes for consumers. It ignores a set
// of a source that isn't configured.
func (m *Merger) Apply(set manifest.Set) *revision.Revision {
	src := m.source(set.Source)
	if src == nil || src.former {
		return nil
	}
	src.lastRead, src.lastErr = set.ReadTime, set.Err
	if set.Err == nil {
		src.lastHeard, src.digest = set.ReadTime, set.Digest
		if !set.Heard.IsZero() {
			src.lastHeard = set.Heard
		}
	}
	if failpoint.Active(failpoint.EarlyReady) && !src.ready {
		src.ready, src.restored = true, true
		m.number++
		src.readyRevision = m.number
		return &revision.Revision{
			Number: m.number, Source: src.Name, SourceReady: true, BecameReady: true, Observed: set.ReadTime,
			Changes: []revision.Change{{Op: revision.ADD, Source: src.Name}},
		}
	}
	if set.Err != nil {
		return nil
	}
	if set.Progress != nil {
		src.changed = set.Progress.Changed
	}
	contended := m.claims.contended()
	touched := src.replace(set.Origins, &m.claims)
	becameReady := !src.ready && src.complete()
	src.ready = src.ready || becameReady
	var dropped []string
	if becameReady {
		dropped = m.dropFormer(&touched)
	}
	if contended || m.claims.contended() {
		touched = m.arbitrate(src)
	}
	rev := m.diff(src, touched, set.ReadTime, becameReady)
	if rev == nil {
		return nil
	}
	m.number, rev.Dropped = rev.Number, dropped
	m.place(rev)
	if becameReady {
		src.readyRevision = rev.Number
	}
	return rev
}

// place sets the positions of a revision: those of its source, and of each source whose pods it has. A pod that waited for
// another one's name may have changed meanwhile, which made no revision.
func (m *Merger) place(rev *revision.Revision) {
	for _, s := range m.sources {
		of := func(c revision.Change) bool { return c.Source == s.Name }
		if s.changed != nil && (s.Name == rev.Source || slices.ContainsFunc(rev.Changes, of)) {
			rev.Changed = rev.Changed.With(s.Name, s.changed)
		}
	}
}

// diff compares the touched UIDs with the served pods, and updates these.
func (m *Merger) diff(src *source, touched touchedPods, read time.Time, becameReady bool) *revision.Revision {
	next := m.number + 1
	var ops revision.Ops
	settled := m.update(&ops, touched, next, src, read)
	// A pod that only moved to another origin makes a revision without ops: without it in the store, a restart would
	// remove the pod when the new origin can't be used.
	settled = append(settled, m.confirm(src)...)
	if becameReady {
		ops.Ready(src.Name)
	}
	changes := ops.Changes(nil)
	if len(changes) == 0 && len(settled) == 0 {
		return nil
	}
	return &revision.Revision{
		Number: next, Source: src.Name, SourceReady: src.ready, BecameReady: becameReady, Observed: read,
		Changes: changes, Settled: settled,
	}
}

// update adds to ops what revision next changes of the touched UIDs, updates the served pods, and returns the pods
// that only moved to another origin. speaker is the source whose set was read at time read, or nil if the merge isn't
// one of a set.
func (m *Merger) update(ops *revision.Ops, touched touchedPods, next uint64, speaker *source, read time.Time) (settled []*revision.Pod) {
	for _, uid := range touched.removed {
		old, want := m.served[uid], touched.wanted[uid]
		if old != nil && !continues(want, old) {
			delete(m.served, uid)
			ops.Add(revision.REMOVE, old, nil)
		}
	}
	for _, c := range touched.order {
		old := m.served[c.pod.UID]
		switch {
		case old == nil:
			p, op := m.appear(c, next, speaker, read)
			m.served[c.pod.UID] = p
			ops.Add(op, p, nil)
		case old.SpecDigest != c.pod.SpecDigest:
			p := changedPod(old, c, next)
			p.SpecChanged = next
			if old.StatusDigest != p.StatusDigest {
				p.StatusChanged = next
			}
			m.served[c.pod.UID] = p
			if c.pod.DeletionTimestamp != nil {
				ops.Add(revision.DELETE, p, old)
			} else {
				ops.Add(revision.UPDATE, p, old)
			}
		case old.StatusDigest != c.pod.StatusDigest:
			p := changedPod(old, c, next)
			p.StatusChanged = next
			m.served[c.pod.UID] = p
			ops.Add(revision.RECONCILE, p, old)
		case failpoint.Active(failpoint.EmitUnchanged):
			p := changedPod(old, c, next)
			p.SpecChanged = next
			m.served[c.pod.UID] = p
			ops.Add(revision.UPDATE, p, old)
		case old.Origin != c.origin.Name:
			settled = append(settled, m.settle(old, c.origin.Name))
		}
	}
	return settled
}

// appear returns the first version of a pod, and its op: RESTORE for a stored pod that lost its name or UID to
// another one and gets it back before its own source was read.
func (m *Merger) appear(c *candidate, number uint64, speaker *source, read time.Time) (*revision.Pod, revision.Op) {
	src := m.source(c.source.Name)
	if speaker == nil {
		// Its own source was last read then.
		read = src.lastRead
	}
	p := newPod(c, read, number)
	if p.Stale = !src.heard(speaker); !p.Stale {
		return p, revision.ADD
	}
	p.Object.Annotations[manifest.SeenAnnotation] = c.pod.Annotations[manifest.SeenAnnotation]
	return p, revision.RESTORE
}

// continues reports whether c is a version of the served pod. A pod with the same UID but another source or name is
// another pod. Both may be nil.
func continues(c *candidate, served *revision.Pod) bool {
	return c != nil && served != nil && c.source.Name == served.Source &&
		c.pod.Name == served.Object.Name && c.pod.Namespace == served.Object.Namespace
}

// newPod returns the first version of a pod.
func newPod(c *candidate, seen time.Time, number uint64) *revision.Pod {
	return &revision.Pod{
		Object: annotated(c.pod.Pod, c.source.Name, seen.UTC().Format(time.RFC3339Nano)),
		Source: c.source.Name, Origin: c.origin.Name, SpecDigest: c.pod.SpecDigest, StatusDigest: c.pod.StatusDigest,
		Created: number, SpecChanged: number, StatusChanged: number,
	}
}

// changedPod returns the next version of a pod, with the first-seen time of old.
func changedPod(old *revision.Pod, c *candidate, number uint64) *revision.Pod {
	p := newPod(c, time.Time{}, number)
	p.Object.Annotations[manifest.SeenAnnotation] = old.Object.Annotations[manifest.SeenAnnotation]
	p.Created, p.SpecChanged, p.StatusChanged = old.Created, old.SpecChanged, old.StatusChanged
	return p
}

// annotated returns a copy of pod with the local annotations. The rest is shared with the source's pod, which is
// immutable.
func annotated(pod *v1.Pod, source, seen string) *v1.Pod {
	out := *pod
	out.Annotations = make(map[string]string, len(pod.Annotations)+2)
	for k, v := range pod.Annotations {
		out.Annotations[k] = v
	}
	out.Annotations[manifest.SourceAnnotation] = source
	out.Annotations[manifest.SeenAnnotation] = seen
	return &out
}

func (m *Merger) source(name string) *source {
	i := slices.IndexFunc(m.sources, func(s *source) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return m.sources[i]
}
