package catchup

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Fresh is for a consumer that holds nothing: each source's pods as ADD, or RESTORE where the source hasn't spoken.
func Fresh(st *history.State) []revision.Change {
	var b builder
	for _, p := range st.Pods {
		b.appear(p)
	}
	return b.changes(st.Sources)
}

// Set is for a consumer that holds something nobody knows: one SET of all pods, labelled with the first source. An empty ADD
// follows for each source that became ready after revision number: the SET speaks for the source of its label only.
func Set(st *history.State, number uint64) []revision.Change {
	source := ""
	if len(st.Sources) > 0 {
		source = st.Sources[0].Name
	}
	changes := []revision.Change{{Op: revision.SET, Source: source, Pods: st.Pods}}
	for _, s := range st.Sources {
		if s.ReadyRevision > number {
			changes = append(changes, revision.Change{Op: revision.ADD, Source: s.Name})
		}
	}
	return changes
}

// Coalesced is for a consumer that is at revision number: what became of each pod since. It is false if removals since then
// may have been forgotten.
func Coalesced(st *history.State, number uint64) ([]revision.Change, bool) {
	if number < st.Horizon || number > st.Number {
		return nil, false
	}
	var b builder
	for _, t := range st.Tombstones {
		if t.Removed > number && t.Pod.Created <= number {
			b.add(revision.REMOVE, t.Pod)
		}
	}
	for _, p := range st.Pods {
		switch {
		case p.Created > number:
			b.appear(p)
		case p.SpecChanged > number:
			b.change(p)
		case p.StatusChanged > number:
			b.add(revision.RECONCILE, p)
		}
	}
	for _, s := range st.Sources {
		if s.ReadyRevision > number {
			b.ready = append(b.ready, s.Name)
		}
	}
	return b.changes(st.Sources), true
}

// Known is a pod that the consumer says it holds.
type Known struct {
	UID    types.UID
	Source string
	// Namespace and Name are empty if the consumer doesn't tell.
	Namespace, Name string
	// SpecDigest and StatusDigest are as the consumer received them. An empty StatusDigest means the current one.
	SpecDigest, StatusDigest string
}

// FromKnown is for a consumer that holds the given pods. Pods of sources that aren't ready are left in pending: their fate is
// decided when the source has spoken.
func FromKnown(st *history.State, known []Known) (changes []revision.Change, pending *Pending) {
	var b builder
	pending = &Pending{known: map[types.UID]Known{}}
	held := make(map[types.UID]Known, len(known))
	names := map[string]bool{}
	for _, k := range known {
		held[k.UID] = k
	}
	for _, p := range st.Pods {
		k, ok := held[p.UID()]
		delete(held, p.UID())
		names[nameIn(p.Source, p.Object.Namespace, p.Object.Name)] = true
		switch {
		case !ok:
			b.appear(p)
		case !k.continues(p):
			b.add(revision.REMOVE, k.pod())
			b.appear(p)
		case k.SpecDigest != p.SpecDigest:
			b.change(p)
		case k.StatusDigest != "" && k.StatusDigest != p.StatusDigest:
			b.add(revision.RECONCILE, p)
		}
	}
	for _, k := range known {
		if _, ok := held[k.UID]; !ok {
			continue
		}
		delete(held, k.UID)
		if k.settled(st.Sources, st.Number) || names[nameIn(k.Source, k.Namespace, k.Name)] {
			b.add(revision.REMOVE, k.pod())
		} else {
			pending.known[k.UID] = k
		}
	}
	return b.changes(st.Sources), pending
}

// settled tells whether, at a revision that the pod isn't in, it is gone for good: its source had spoken by then, or is
// configured no longer and all others had spoken.
func (k Known) settled(sources history.Sources, number uint64) bool {
	return sources.ReadyAt(k.Source, number) || !sources.Configured(k.Source) && sources.AllReadyAt(number)
}

// continues tells whether p, which has the same UID, is a version of the known pod: with another source or name it is another.
func (k Known) continues(p *revision.Pod) bool {
	return k.Source == p.Source && (k.Name == "" || k.Name == p.Object.Name && k.Namespace == p.Object.Namespace)
}

// nameIn is the full name within a source, where it is unique: a pod that bears it has taken the place of any other.
func nameIn(source, namespace, name string) string { return source + "/" + namespace + "/" + name }

// pod is what is known of a known pod: enough for a REMOVE.
func (k Known) pod() *revision.Pod {
	return &revision.Pod{
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: k.UID, Namespace: k.Namespace, Name: k.Name}},
		Source: k.Source, SpecDigest: k.SpecDigest, StatusDigest: k.StatusDigest,
	}
}
