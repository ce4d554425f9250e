package catchup

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// Known is a pod that the consumer says it holds.
type Known struct {
	UID    types.UID
	Source string
	// Namespace and Name are empty if the consumer doesn't tell.
	Namespace, Name string
	// SpecDigest and StatusDigest are as the consumer received them, in terms of its view. An empty StatusDigest means the current
	// one.
	SpecDigest, StatusDigest string
}

// FromKnown is for a consumer that holds the given pods: the difference to what it should hold. What no source has said yet is
// left in pending.
//
// In the snapshot modes the difference is a SET, if there is any, and nothing is pending: the SETs that follow tell everything. A
// SET removes nothing of a source that isn't ready or isn't seen; where such a pod has to go, a REMOVE stands before it.
func FromKnown(st *history.State, known []Known, v *view.View) (changes []revision.Change, pending *Pending) {
	var ops revision.Ops
	j := judge{ops: &ops, view: v, sources: st.Sources, number: st.Number}
	pending = newPending(st, st.Number, v)
	held := make(map[types.UID]Known, len(known))
	for _, k := range known {
		held[k.UID] = k
	}
	taken := map[podName]bool{}
	for _, p := range st.Pods {
		if !p.Stale && namesOnce(p.Source) {
			taken[nameOf(p)] = true
		}
		k, ok := held[p.UID()]
		delete(held, p.UID())
		if !ok {
			if v.Matches(p) {
				appear(&ops, p)
			}
		} else if !j.decide(k, p) {
			pending.add(k, p)
		}
	}
	for _, k := range known {
		k, ok := held[k.UID]
		delete(held, k.UID)
		switch {
		case !ok:
		case taken[k.fullName()]:
			j.replace(k, nil)
		case !j.decide(k, nil):
			pending.add(k, nil)
		}
	}
	changes = ops.Changes(names(st.Sources))
	if v.Snapshots() {
		return snapshot(changes, st, st.Number, v), newPending(st, st.Number, v)
	}
	return changes, pending
}

// judge decides on known pods by what the state at one revision has.
type judge struct {
	ops     *revision.Ops
	view    *view.View
	sources history.Sources
	number  uint64
}

// decide puts into ops what takes the consumer from the known pod to now, the pod of its UID, or to nothing if now is nil or not
// in the view. It is false if that is open until a source has spoken.
func (j judge) decide(k Known, now *revision.Pod) bool {
	onlyStored := now != nil && now.Stale
	switch {
	case !j.view.MayMatch(k.Source, k.Namespace, k.Name):
	case now == nil || !k.continues(now):
		if (now == nil || onlyStored) && !k.settled(j.sources, j.number) {
			return false
		}
	case onlyStored && !k.is(now, j.view):
		return false
	}
	j.turn(k, now)
	return true
}

// turn is decide for a pod of which it is known that it is so.
func (j judge) turn(k Known, now *revision.Pod) {
	switch {
	case now == nil || !k.continues(now) || !j.view.Matches(now):
		j.replace(k, now)
	case !k.hasSpec(now, j.view):
		change(j.ops, now)
	case !k.is(now, j.view):
		j.ops.Add(revision.RECONCILE, now, nil)
	}
}

// replace removes the known pod and, if it is seen, brings the other pod that has its UID now; nil if there is none.
func (j judge) replace(k Known, now *revision.Pod) {
	j.ops.Add(revision.REMOVE, k.pod(), nil)
	if now != nil && j.view.Matches(now) {
		appear(j.ops, now)
	}
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

// is tells whether the known pod is just this version, as the view shows it.
func (k Known) is(p *revision.Pod, v *view.View) bool {
	_, status := v.Digests(p)
	return k.continues(p) && k.hasSpec(p, v) && (k.StatusDigest == "" || k.StatusDigest == status)
}

// hasSpec tells whether the known pod has the spec of this version, as the view shows it.
func (k Known) hasSpec(p *revision.Pod, v *view.View) bool {
	spec, _ := v.Digests(p)
	return k.SpecDigest != "" && k.SpecDigest == spec
}

// podName is the full name within a source. Where it is unique, a pod that bears it has taken the place of any other.
type podName struct{ source, namespace, name string }

// namesOnce tells whether no two pods of the source bear one name. A relay may have a static pod and its mirror pod.
func namesOnce(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	return kind != "relay"
}

func nameOf(p *revision.Pod) podName { return podName{p.Source, p.Object.Namespace, p.Object.Name} }

// fullName is the known pod's; without a name if the consumer doesn't tell it.
func (k Known) fullName() podName { return podName{k.Source, k.Namespace, k.Name} }

// pod is what is known of a known pod: enough for a REMOVE.
func (k Known) pod() *revision.Pod {
	return &revision.Pod{
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: k.UID, Namespace: k.Namespace, Name: k.Name}},
		Source: k.Source, SpecDigest: k.SpecDigest, StatusDigest: k.StatusDigest,
	}
}
