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
	// Namespace and Name are empty if the consumer doesn't send them.
	Namespace, Name string
	// SpecDigest and StatusDigest are as the consumer received them, in its view. An empty StatusDigest means the
	// current one.
	SpecDigest, StatusDigest string
}

// FromKnown returns the changes for a consumer that holds the given pods: the difference to what it should hold. Pods
// that no source has decided yet become pending.
//
// In the snapshot modes the difference is a SET, if there is any, and nothing is pending: later SETs report
// everything. A SET removes nothing of a source that isn't ready or isn't seen; if such a pod has to go, a REMOVE
// precedes the SET.
func FromKnown(st *history.State, known []Known, v *view.View) (changes []revision.Change, pending *Pending) {
	var ops revision.Ops
	j := judge{ops: &ops, view: v, sources: st.Sources, number: st.Number}
	pending = newPending(st, st.Number, v)
	held := make(map[types.UID]Known, len(known))
	for _, k := range known {
		held[k.UID] = k
	}
	// taken are the names of known pods that pods of the state have.
	taken := make(map[podName]bool, len(known))
	for _, k := range known {
		taken[k.fullName()] = false
	}
	for _, p := range st.Pods {
		if !v.InScope(p) {
			continue // It doesn't exist for the consumer, whatever it says that it holds.
		}
		if !p.Stale && namesOnce(p.Source) {
			if _, ok := taken[nameOf(p)]; ok {
				taken[nameOf(p)] = true
			}
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

// Shown returns what a consumer holds that has what the view shows of the state.
func Shown(st *history.State, v *view.View) []Known {
	var out []Known
	for _, p := range v.Pods(st.Pods) {
		k := Known{UID: p.UID(), Source: p.Source, Namespace: p.Object.Namespace, Name: p.Object.Name}
		k.SpecDigest, k.StatusDigest = v.Digests(p)
		out = append(out, k)
	}
	return out
}

// podOf returns the state's pod with that UID, or nil if there is none in the scope of the view's caller: its known
// pods must reveal nothing of others.
func podOf(st *history.State, uid types.UID, v *view.View) *revision.Pod {
	if p := st.Pod(uid); p != nil && v.InScope(p) {
		return p
	}
	return nil
}

// judge decides on known pods by the state at one revision.
type judge struct {
	ops     *revision.Ops
	view    *view.View
	sources history.Sources
	number  uint64
}

// decide adds the ops that lead from the known pod to now, the pod of its UID, or to no pod if now is nil or not in
// the view. It is false if that is open until a source was read.
func (j judge) decide(k Known, now *revision.Pod) bool {
	onlyStored := now != nil && now.Stale
	switch {
	case !j.view.MayMatch(k.Source, k.UID, k.Namespace, k.Name):
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

// turn is decide for a pod that isn't open.
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

// replace removes the known pod and, if it is in the view, adds the other pod that has its UID now; nil if there is
// none.
func (j judge) replace(k Known, now *revision.Pod) {
	j.ops.Add(revision.REMOVE, k.pod(), nil)
	if now != nil && j.view.Matches(now) {
		appear(j.ops, now)
	}
}

// settled reports whether a pod that isn't in the state at a revision is gone for good: its source had been read by
// then, or isn't configured any more and all others had been read.
func (k Known) settled(sources history.Sources, number uint64) bool {
	return sources.ReadyAt(k.Source, number) || !sources.Configured(k.Source) && sources.AllReadyAt(number)
}

// continues reports whether p, which has the same UID, is a version of the known pod. With another source or name it
// is another pod.
func (k Known) continues(p *revision.Pod) bool {
	return k.Source == p.Source && (k.Name == "" || k.Name == p.Object.Name && k.Namespace == p.Object.Namespace)
}

// is reports whether the known pod is exactly this version, as the view shows it.
func (k Known) is(p *revision.Pod, v *view.View) bool {
	_, status := v.Digests(p)
	return k.continues(p) && k.hasSpec(p, v) && (k.StatusDigest == "" || k.StatusDigest == status)
}

// hasSpec reports whether the known pod has the spec of this version, as the view shows it.
func (k Known) hasSpec(p *revision.Pod, v *view.View) bool {
	spec, _ := v.Digests(p)
	return k.SpecDigest != "" && k.SpecDigest == spec
}

// podName is the full name within a source. Where it is unique, a pod of that name has replaced any other.
type podName struct{ source, namespace, name string }

// namesOnce reports whether no two pods of the source have one name. A relay may have a static pod and its mirror
// pod.
func namesOnce(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	return kind != "relay"
}

func nameOf(p *revision.Pod) podName { return podName{p.Source, p.Object.Namespace, p.Object.Name} }

// fullName returns the known pod's; without a name if the consumer didn't send it.
func (k Known) fullName() podName { return podName{k.Source, k.Namespace, k.Name} }

// pod returns a Pod with the known fields: enough for a REMOVE.
func (k Known) pod() *revision.Pod {
	return &revision.Pod{
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: k.UID, Namespace: k.Namespace, Name: k.Name}},
		Source: k.Source, SpecDigest: k.SpecDigest, StatusDigest: k.StatusDigest,
	}
}
