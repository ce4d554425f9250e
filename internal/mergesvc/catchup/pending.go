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

// Pending are the pods that one consumer holds and that no source has decided yet: pods of sources that aren't ready,
// which the state lacks, or has from the store in another version. It belongs to one stream, all changes of which go
// through Settle.
type Pending struct {
	view *view.View
	open map[types.UID]open
	// named are the open ones by name. Entries that aren't open any more, or have another name, may be left in it.
	named map[podName][]types.UID
	// waits counts the open pods by the sources that may decide them. former counts those that wait for all sources,
	// as theirs isn't configured any more.
	waits  map[string]int
	former int
	// at is the revision up to which the consumer was sent everything, and sources their readiness then or later.
	at      uint64
	sources history.Sources
	// reconfigured is set if other sources were configured since at: then all open pods are checked, whichever source
	// is read.
	reconfigured bool
}

// open is a known pod, and the source of the pod that has its UID in the state, empty if there is none: either source
// decides.
type open struct {
	Known
	holder string
}

func newPending(st *history.State, number uint64, v *view.View) *Pending {
	return &Pending{
		view: v, open: map[types.UID]open{}, named: map[podName][]types.UID{}, waits: map[string]int{}, at: number, sources: st.Sources,
	}
}

// Empty reports whether nothing is open any more: then Settle returns the changes as they are, now and later.
func (p *Pending) Empty() bool { return p == nil || len(p.open) == 0 }

// Known returns the pods that are open, in no order.
func (p *Pending) Known() []Known {
	if p == nil {
		return nil
	}
	out := make([]Known, 0, len(p.open))
	for _, o := range p.open {
		out = append(out, o.Known)
	}
	return out
}

// add makes the known pod open. now has its UID in the state, or is nil.
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

// close ends that a pod is open.
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

// Configure reports that the changes that are settled next lead to a revision with these configured sources. Then
// other sources may decide what is open: a removed source never will, and a new one has to be waited for.
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

// Undecided returns those of the known pods that were open at revision number, where the consumer resumes in the same
// view: their sources hadn't been read. st is the state at that revision or a later one. It may include pods that
// changed since, and all pods that might have been open if other sources were configured then: later changes are
// compared with what the consumer holds.
func Undecided(st *history.State, number uint64, known []Known, v *view.View) *Pending {
	p := newPending(st, number, v)
	if v.Snapshots() {
		return p
	}
	p.reconfigured = number < st.SourcesSince
	for _, k := range known {
		now := podOf(st, k.UID, v)
		sent := now != nil && v.Matches(now) && k.is(now, v) && now.SpecChanged <= number && now.StatusChanged <= number
		if !sent && (p.reconfigured || !k.settled(st.Sources, number)) {
			p.add(k, now)
		}
	}
	return p
}

// Settle takes the changes that lead to a revision and returns what to send instead: for pending pods, only
// differences to what the consumer holds. Pending pods whose source is ready now are compared with the state, even if
// no change names them. state returns the state at exactly that revision, and is called only if there may be such a
// pod; if it returns nil, Settle returns nil and settles nothing. A nil Pending changes nothing. If the configured
// sources changed at that revision, call Configure first.
//
// The changes have no SET: its consumer itself removes what the SET lacks, unless a later op names it, so that nothing
// is pending any more.
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
	j := judge{ops: &ops, view: p.view, sources: p.sources, number: number}
	for _, c := range changes {
		if len(c.Pods) == 0 {
			ops.Ready(c.Source)
		} else {
			p.addOps(j, c)
		}
	}
	if due {
		j.sources, p.sources, p.reconfigured = st.Sources, st.Sources, false
		p.decide(j, st)
		for _, s := range p.view.Sources(st.Sources) {
			// The op that reported it may have been one of a pod that the consumer holds in the same version.
			if s.ReadyRevision > p.at && s.ReadyAt(number) {
				ops.Ready(s.Name)
			}
		}
	}
	p.at = number
	return ops.Changes(names(p.sources))
}

// due reports whether the changes may have made a source ready that a pending pod waits for. Their ops show that,
// unless the consumer doesn't see the source.
func (p *Pending) due(changes []revision.Change) bool {
	return slices.ContainsFunc(p.sources, func(s history.Source) bool {
		read := revision.SourceRead(changes, s.Name)
		return read && p.waits[s.Name] > 0 || p.former > 0 && !s.ReadyAt(p.at) && (read || !p.view.Sees(s.Name))
	})
}

// addOps adds the ops for a change's pods.
func (p *Pending) addOps(j judge, c revision.Change) {
	for _, pod := range c.Pods {
		o, ok := p.open[pod.UID()]
		switch {
		case !ok:
			// Consumers aren't sent the replaced version.
			j.ops.Add(c.Op, pod, nil)
		case c.Op == revision.REMOVE:
			// If it isn't the pod that the consumer holds, that one stays open.
			if o.continues(pod) {
				p.close(pod.UID())
				j.ops.Add(c.Op, pod, nil)
			}
		case c.Op == revision.RECONCILE && o.StatusDigest == "" && o.is(pod, p.view):
			// The consumer took its status for the current one, which has changed.
			p.close(pod.UID())
			j.ops.Add(c.Op, pod, nil)
		default:
			p.close(pod.UID())
			j.turn(o.Known, pod)
		}
		if c.Op != revision.REMOVE {
			p.replaced(j, pod)
		}
	}
}

// replaced removes the pending pods whose name the pod has taken, and whose UID no other pod has. The pod's own UID
// is no longer open.
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
		if pod := podOf(st, o.UID, p.view); j.decide(o.Known, pod) {
			p.close(o.UID)
		} else {
			p.add(o.Known, pod)
		}
	}
}
