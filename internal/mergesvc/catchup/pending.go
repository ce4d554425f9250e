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
	// named are the open ones by name. What is open no longer, or by another name, may stand there still.
	named map[podName][]types.UID
	// waits counts the open ones by the sources whose word may decide them, and former those that wait for all sources, as theirs
	// is configured no longer.
	waits  map[string]int
	former int
	// at is the revision up to which the consumer has been told, and sources their readiness then or later.
	at      uint64
	sources history.Sources
	// reconfigured is set if others are configured since at: then what is open has to be looked at, whoever speaks.
	reconfigured bool
}

// open is a known pod, and the source of the pod that has its UID in the state, empty if there is none: the word of either
// source decides.
type open struct {
	Known
	holder string
}

func newPending(st *history.State, number uint64, v *view.View) *Pending {
	return &Pending{
		view: v, open: map[types.UID]open{}, named: map[podName][]types.UID{}, waits: map[string]int{}, at: number, sources: st.Sources,
	}
}

// Empty tells whether there is nothing left open: then Settle returns the changes as they are, now and later.
func (p *Pending) Empty() bool { return p == nil || len(p.open) == 0 }

// add leaves open what becomes of the known pod; now has its UID in the state, nil if there is none.
func (p *Pending) add(k Known, now *revision.Pod) {
	o := open{Known: k}
	if now != nil {
		o.holder = now.Source
	}
	if was, ok := p.open[k.UID]; !ok || was.fullName() != k.fullName() {
		p.named[k.fullName()] = append(p.named[k.fullName()], k.UID)
	}
	p.close(k.UID)
	p.open[k.UID] = o
	p.count(o, 1)
}

// close takes away what is open no longer.
func (p *Pending) close(uid types.UID) {
	if o, ok := p.open[uid]; ok {
		delete(p.open, uid)
		p.count(o, -1)
	}
}

func (p *Pending) count(o open, n int) {
	p.waits[o.Source] += n
	if o.holder != "" {
		p.waits[o.holder] += n
	}
	if !p.sources.Configured(o.Source) {
		p.former += n
	}
}

// Configure says that the changes which are settled next lead to a revision in which these sources are configured. Then others may
// decide what is open: the word of one that went never comes, and one that is new has to be waited for.
func (p *Pending) Configure(sources history.Sources) {
	same := func(a, b history.Source) bool { return a.Name == b.Name && a.Added == b.Added }
	if p.Empty() || slices.EqualFunc(p.sources, sources, same) {
		return
	}
	p.sources, p.reconfigured = sources, true
	p.former = 0
	for _, o := range p.open {
		if !sources.Configured(o.Source) {
			p.former++
		}
	}
}

// Undecided are those of the known pods whose fate was open at revision number, where the consumer resumes in the same view:
// their sources hadn't spoken. st is the state at that revision or a later one. Pods that have changed since may be among them, and
// all that might have been open if other sources were configured at that revision: what comes next is compared with what the consumer
// holds.
func Undecided(st *history.State, number uint64, known []Known, v *view.View) *Pending {
	p := newPending(st, number, v)
	if v.Snapshots() {
		return p
	}
	p.reconfigured = number < st.SourcesSince
	for _, k := range known {
		now := st.Pod(k.UID)
		told := now != nil && v.Matches(now) && k.is(now, v) && now.SpecChanged <= number && now.StatusChanged <= number
		if !told && (p.reconfigured || !k.settled(st.Sources, number)) {
			p.add(k, now)
		}
	}
	return p
}

// Settle takes the changes that lead to a revision and returns what to send instead: of the pending pods, what differs from what
// the consumer holds. Those whose source is ready now are compared with the state, though no change names them; state gives just
// that of the revision, and is called only if there may be such a pod; if it gives nil, so does Settle, and nothing is settled. A
// SET stays whole, as its consumer removes what isn't in it. A nil Pending changes nothing. Where other sources are configured at
// that revision than before, Configure comes first.
func (p *Pending) Settle(changes []revision.Change, number uint64, state func() *history.State) []revision.Change {
	if p.Empty() {
		return changes
	}
	due := p.reconfigured || p.due(changes)
	var st *history.State
	if due {
		// Before anything is decided: without the state nothing is.
		if st = state(); st == nil {
			return nil
		}
	}
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
		j.sources, p.sources, p.reconfigured = st.Sources, st.Sources, false
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
	return slices.ContainsFunc(p.sources, func(s history.Source) bool {
		spoke := revision.TellsOf(changes, s.Name)
		return spoke && p.waits[s.Name] > 0 || p.former > 0 && !s.ReadyAt(p.at) && (spoke || !p.view.Sees(s.Name))
	})
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
				p.close(pod.UID())
				j.ops.Add(c.Op, pod, nil)
			}
		case c.Op == revision.RECONCILE && o.StatusDigest == "" && o.is(pod, p.view):
			// The status that the consumer has, which it took for the current one, is that no more.
			p.close(pod.UID())
			j.ops.Add(c.Op, pod, was)
		default:
			p.close(pod.UID())
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
			p.close(pod.UID())
			if !o.continues(pod) {
				j.replace(o.Known, nil)
			}
		}
		p.replaced(j, pod)
	}
}

// replaced removes the pending pods whose name the pod has taken, and whose UID nobody has. The pod's own UID is open no longer.
func (p *Pending) replaced(j judge, pod *revision.Pod) {
	if pod.Stale || !namesOnce(pod.Source) {
		return
	}
	name := nameOf(pod)
	var left []types.UID
	for _, uid := range p.named[name] {
		switch o, ok := p.open[uid]; {
		case !ok || o.fullName() != name:
		case o.holder != "":
			left = append(left, uid)
		default:
			p.close(uid)
			j.replace(o.Known, nil)
		}
	}
	if len(left) > 0 {
		p.named[name] = left
	} else {
		delete(p.named, name)
	}
}

// decide compares what is still open with the state.
func (p *Pending) decide(j judge, st *history.State) {
	left := slices.SortedFunc(maps.Values(p.open), func(a, b open) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, o := range left {
		if pod := st.Pod(o.UID); j.decide(o.Known, pod) {
			p.close(o.UID)
		} else {
			p.add(o.Known, pod)
		}
	}
}
