package merge

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Source names one configured source.
type Source struct {
	// Name is "file", "http", "api" or "KIND:NAME".
	Name string
	// Location is the path or URL, for ListSources.
	Location string
}

// Merger holds the merged state. Its methods must not be called concurrently.
type Merger struct {
	sources []*source
	claims  claims
	// served are the pods that consumers have been told of.
	served map[types.UID]*revision.Pod
	number uint64
}

// New returns a Merger without pods. sources are in order of priority; their names are unique.
func New(sources []Source) *Merger {
	m := &Merger{claims: newClaims(), served: map[types.UID]*revision.Pod{}}
	for _, s := range sources {
		m.sources = append(m.sources, &source{Source: s, byName: map[string]*origin{}})
	}
	return m
}

// Apply merges one set and returns the revision that it makes, or nil if consumers have nothing to learn from it. A set of a
// source that isn't configured is ignored.
func (m *Merger) Apply(set manifest.Set) *revision.Revision {
	src := m.source(set.Source)
	if src == nil {
		return nil
	}
	src.lastRead, src.lastErr = set.ReadTime, set.Err
	if set.Err != nil {
		return nil
	}
	contended := m.claims.contended()
	touched := src.replace(set.Origins, &m.claims)
	if contended || m.claims.contended() {
		touched = m.arbitrate()
	}
	becameReady := !src.ready && src.complete()
	src.ready = src.ready || becameReady
	rev := m.diff(src, touched, set.ReadTime, becameReady)
	if rev == nil {
		return nil
	}
	m.number = rev.Number
	if becameReady {
		src.readyRevision = rev.Number
	}
	return rev
}

// diff compares the touched UIDs with what is served, and brings served up to date.
func (m *Merger) diff(src *source, touched touchedPods, read time.Time, becameReady bool) *revision.Revision {
	next := m.number + 1
	var ops opList
	for _, uid := range touched.removed {
		old, want := m.served[uid], touched.wanted[uid]
		if old != nil && !continues(want, old) {
			delete(m.served, uid)
			ops.add(revision.REMOVE, old)
		}
	}
	for _, c := range touched.order {
		old := m.served[c.pod.UID]
		switch {
		case old == nil:
			p := newPod(c, read, next)
			m.served[c.pod.UID] = p
			ops.add(revision.ADD, p)
		case old.SpecDigest != c.pod.SpecDigest:
			p := changedPod(old, c, next)
			p.SpecChanged = next
			if old.StatusDigest != p.StatusDigest {
				p.StatusChanged = next
			}
			m.served[c.pod.UID] = p
			if c.pod.DeletionTimestamp != nil {
				ops.add(revision.DELETE, p)
			} else {
				ops.add(revision.UPDATE, p)
			}
		case old.StatusDigest != c.pod.StatusDigest:
			p := changedPod(old, c, next)
			p.StatusChanged = next
			m.served[c.pod.UID] = p
			ops.add(revision.RECONCILE, p)
		}
	}
	if becameReady && !ops.tellsOf(src.Name) {
		ops.empty = src.Name
	}
	changes := ops.changes()
	if len(changes) == 0 {
		return nil
	}
	return &revision.Revision{
		Number: next, Source: src.Name, SourceReady: src.ready, BecameReady: becameReady, Observed: read, Changes: changes,
	}
}

// continues tells whether c is a version of the served pod: under one UID, a pod of another source or with another name is
// another pod. c may be nil.
func continues(c *candidate, served *revision.Pod) bool {
	return c != nil && c.source.Name == served.Source &&
		c.pod.Name == served.Object.Name && c.pod.Namespace == served.Object.Namespace
}

// newPod is the first version of a pod.
func newPod(c *candidate, seen time.Time, number uint64) *revision.Pod {
	return &revision.Pod{
		Object: annotated(c.pod.Pod, c.source.Name, seen.UTC().Format(time.RFC3339Nano)),
		Source: c.source.Name, SpecDigest: c.pod.SpecDigest, StatusDigest: c.pod.StatusDigest,
		Created: number, SpecChanged: number, StatusChanged: number,
	}
}

// changedPod is the next version of a pod; its first-seen time stays.
func changedPod(old *revision.Pod, c *candidate, number uint64) *revision.Pod {
	p := newPod(c, time.Time{}, number)
	p.Object.Annotations[manifest.SeenAnnotation] = old.Object.Annotations[manifest.SeenAnnotation]
	p.Created, p.SpecChanged, p.StatusChanged = old.Created, old.SpecChanged, old.StatusChanged
	return p
}

// annotated is a copy of pod with the local annotations. All else is shared with the source's pod, which nobody changes.
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
