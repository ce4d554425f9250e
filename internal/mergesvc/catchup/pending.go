package catchup

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// Pending are the pods that one consumer holds and of which no source has spoken yet: pods of sources that aren't ready, which
// the state doesn't have, or has from the store in another version. It belongs to one stream, all changes of which go through
// Settle.
type Pending struct {
	view *view.View
	open map[types.UID]open
	// at is the revision up to which the consumer has been told, and sources their readiness then or later.
	at      uint64
	sources history.Sources
}

// open is a known pod, and the source of the pod that has its UID in the state, empty if there is none: the word of either
// source decides.
type open struct {
	Known
	holder string
}

func newPending(st *history.State, number uint64, v *view.View) *Pending {
	return &Pending{view: v, open: map[types.UID]open{}, at: number, sources: st.Sources}
}

// add leaves open what becomes of the known pod; now has its UID in the state, nil if there is none.
func (p *Pending) add(k Known, now *revision.Pod) {
	o := open{Known: k}
	if now != nil {
		o.holder = now.Source
	}
	p.open[k.UID] = o
}

// Undecided are those of the known pods whose fate was open at revision number, where the consumer resumes in the same view:
// their sources hadn't spoken. st is the state at that revision or a later one. Pods that have changed since may be among them:
// what comes next is compared with what the consumer holds.
func Undecided(st *history.State, number uint64, known []Known, v *view.View) *Pending {
	p := newPending(st, number, v)
	if v.Snapshots() {
		return p
	}
	for _, k := range known {
		now := st.Pod(k.UID)
		told := now != nil && v.Matches(now) && k.is(now) && now.SpecChanged <= number && now.StatusChanged <= number
		if !told && !k.settled(st.Sources, number) {
			p.add(k, now)
		}
	}
	return p
}

// Settle takes the changes that lead to a revision and returns what to send instead: of the pending pods, what differs from what
// the consumer holds. Those whose source is ready now are compared with the state, though no change names them; state gives just
// that of the revision, and is called only if there may be such a pod. A SET stays whole, as its consumer removes what isn't in
// it. A nil Pending changes nothing.
func (p *Pending) Settle(changes []revision.Change, number uint64, state func() *history.State) []revision.Change {
	if p == nil || len(p.open) == 0 {
		return changes
	}
	due := p.due(changes)
	var ops revision.Ops
	var set []revision.Change
	j := judge{ops: &ops, view: p.view, sources: p.sources, number: number}
	for _, c := range changes {
		switch {
		case c.Op == revision.SET:
			set = append(set, c)
			p.told(j, c)
		case len(c.Pods) == 0:
			ops.Ready(c.Source)
		default:
			p.tell(j, c)
		}
	}
	if due {
		st := state()
		j.sources, p.sources = st.Sources, st.Sources
		p.decide(j, st)
		for _, s := range p.view.Sources(st.Sources) {
			// The word that said so may have been one of a pod that the consumer holds just so.
			if s.ReadyRevision > p.at && s.ReadyAt(number) {
				ops.Ready(s.Name)
			}
		}
	}
	p.at = number
	out := ops.Changes(names(p.sources))
	// What the SET doesn't speak of goes before it.
	removals := 0
	for removals < len(out) && out[removals].Op == revision.REMOVE {
		removals++
	}
	return slices.Insert(out, removals, set...)
}

// due tells whether the changes may have made a source ready that a pending pod waits for: then they tell of it, unless it is one
// that the consumer doesn't see.
func (p *Pending) due(changes []revision.Change) bool {
	if slices.ContainsFunc(changes, func(c revision.Change) bool { return c.Op == revision.SET }) {
		return true
	}
	spoke := func(source string) bool { return revision.TellsOf(changes, source) }
	for _, o := range p.open {
		if spoke(o.Source) || o.holder != "" && spoke(o.holder) {
			return true
		}
		if p.sources.Configured(o.Source) {
			continue
		}
		// It waits for all of them.
		for _, s := range p.sources {
			if !s.ReadyAt(p.at) && (spoke(s.Name) || !p.view.Sees(s.Name)) {
				return true
			}
		}
	}
	return false
}

// tell is what the consumer has to be told of a change's pods.
func (p *Pending) tell(j judge, c revision.Change) {
	for i, pod := range c.Pods {
		var was *revision.Pod
		if i < len(c.Was) {
			was = c.Was[i]
		}
		o, ok := p.open[pod.UID()]
		switch {
		case !ok:
			j.ops.Add(c.Op, pod, was)
		case c.Op == revision.REMOVE:
			// If it isn't the one that the consumer holds, that one's fate stays open.
			if o.continues(pod) {
				delete(p.open, pod.UID())
				j.ops.Add(c.Op, pod, nil)
			}
		case c.Op == revision.RECONCILE && o.StatusDigest == "" && o.is(pod):
			// The status that the consumer has, which it took for the current one, is that no more.
			delete(p.open, pod.UID())
			j.ops.Add(c.Op, pod, was)
		default:
			delete(p.open, pod.UID())
			j.turn(o.Known, pod)
		}
		if c.Op != revision.REMOVE {
			p.replaced(j, pod)
		}
	}
}

// told closes what a SET tells of. A pod that only has the UID of a pending one takes its place.
func (p *Pending) told(j judge, set revision.Change) {
	for _, pod := range set.Pods {
		if o, ok := p.open[pod.UID()]; ok {
			delete(p.open, pod.UID())
			if !o.continues(pod) {
				j.replace(o.Known, nil)
			}
		}
		p.replaced(j, pod)
	}
}

// replaced removes the pending pods whose name the pod has taken, and whose UID nobody has.
func (p *Pending) replaced(j judge, pod *revision.Pod) {
	if pod.Stale {
		return
	}
	name := nameIn(pod.Source, pod.Object.Namespace, pod.Object.Name)
	for uid, o := range p.open {
		if uid != pod.UID() && o.holder == "" && nameIn(o.Source, o.Namespace, o.Name) == name {
			delete(p.open, uid)
			j.replace(o.Known, nil)
		}
	}
}

// decide compares what is still open with the state.
func (p *Pending) decide(j judge, st *history.State) {
	left := slices.SortedFunc(maps.Values(p.open), func(a, b open) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, o := range left {
		if pod := st.Pod(o.UID); j.decide(o.Known, pod) {
			delete(p.open, o.UID)
		} else {
			p.add(o.Known, pod)
		}
	}
}
