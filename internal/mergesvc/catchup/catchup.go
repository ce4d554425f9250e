package catchup

import (
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// Fresh is for a consumer that holds nothing: each source's pods as ADD, or RESTORE where they are known from the store only. In
// the snapshot modes it is a SET.
func Fresh(st *history.State, v *view.View) []revision.Change {
	if v.Snapshots() {
		return Set(st, st.Number, v)
	}
	var ops revision.Ops
	for _, p := range v.Pods(st.Pods) {
		appear(&ops, p)
	}
	return ops.Changes(names(st.Sources))
}

// Set is for a consumer of which it isn't known what it holds beside the pods of revision number: one SET of all pods, labelled with
// the first source. Before it stand the removals since that are remembered, of sources that aren't ready: of those the SET tells no
// removal. An empty ADD follows for each source that became ready since: the SET speaks for the source of its label only.
func Set(st *history.State, number uint64, v *view.View) []revision.Change {
	return asSet(since(st, number, v), st, number, v)
}

// asSet are changes since revision number for a consumer that gets a SET.
func asSet(changes []revision.Change, st *history.State, number uint64, v *view.View) []revision.Change {
	source, sources := "", v.Sources(st.Sources)
	if len(sources) > 0 {
		source = sources[0].Name
	}
	set := revision.Change{Op: revision.SET, Source: source, Pods: v.Pods(st.Pods)}
	out := append(v.Unsaid(changes, st.Sources, st.Number), set)
	for _, s := range sources {
		if s.ReadyRevision > number {
			out = append(out, revision.Change{Op: revision.ADD, Source: s.Name})
		}
	}
	return out
}

// Coalesced is for a consumer that is at revision number: what became of each pod since. In the snapshot modes that is a Set, or
// nothing if nothing of the view came, went, changed or became ready. It is false if removals since then may have been forgotten.
func Coalesced(st *history.State, number uint64, v *view.View) ([]revision.Change, bool) {
	if number < st.Horizon || number > st.Number {
		return nil, false
	}
	changes := since(st, number, v)
	if v.Snapshots() {
		changes = snapshot(changes, st, number, v)
	}
	return changes, true
}

// snapshot are changes since revision number in the snapshot modes: a SET, or nothing if they tell nothing of it.
func snapshot(changes []revision.Change, st *history.State, number uint64, v *view.View) []revision.Change {
	if !tellsMore(changes) {
		return nil
	}
	return asSet(changes, st, number, v)
}

// since is what became of each pod since revision number, but for the removals that were forgotten.
func since(st *history.State, number uint64, v *view.View) []revision.Change {
	if number >= st.Number {
		return nil
	}
	var ops revision.Ops
	for _, t := range st.Tombstones {
		if t.Removed > number && t.Pod.Created <= number && mayMatch(v, t.Pod) && !failpoint.Active(failpoint.ForgetTombstones) {
			ops.Add(revision.REMOVE, t.Pod, nil)
		}
	}
	for _, p := range st.Pods {
		coalesce(&ops, p, number, v)
	}
	for _, s := range v.Sources(st.Sources) {
		if s.ReadyRevision > number {
			ops.Ready(s.Name)
		}
	}
	return ops.Changes(names(st.Sources))
}

// coalesce is the op for a pod of which the consumer knows all up to revision number.
func coalesce(ops *revision.Ops, p *revision.Pod, number uint64, v *view.View) {
	matches := v.Matches(p)
	switch {
	case p.Created > number:
		if matches {
			appear(ops, p)
		}
	case p.SpecChanged > number && !v.Fixed():
		// Nobody knows any more whether it matched before.
		if matches {
			ops.Add(revision.ADD, p, nil)
		} else if mayMatch(v, p) {
			ops.Add(revision.REMOVE, p, nil)
		}
	case !matches:
	case p.SpecChanged > number:
		change(ops, p)
	case p.StatusChanged > number:
		ops.Add(revision.RECONCILE, p, nil)
	}
}

// appear is the op for a pod that the consumer doesn't hold.
func appear(ops *revision.Ops, p *revision.Pod) {
	if p.Stale {
		ops.Add(revision.RESTORE, p, nil)
	} else {
		ops.Add(revision.ADD, p, nil)
	}
}

// change is the op for a pod whose spec the consumer holds in another version.
func change(ops *revision.Ops, p *revision.Pod) {
	if p.Object.DeletionTimestamp != nil {
		ops.Add(revision.DELETE, p, nil)
	} else {
		ops.Add(revision.UPDATE, p, nil)
	}
}

// mayMatch goes by the pod's name and source, and by the node for the caller's scope: of a pod that changed or went no more is sure to
// be what it was.
func mayMatch(v *view.View, p *revision.Pod) bool {
	return v.InScope(p) && v.MayMatch(p.Source, p.Object.Namespace, p.Object.Name)
}

// tellsMore tells whether the changes hold more than RECONCILE, which the snapshot modes don't tell.
func tellsMore(changes []revision.Change) bool {
	// RECONCILE stands last.
	return len(changes) > 0 && changes[0].Op != revision.RECONCILE
}

// names are those of the configured sources, in order of priority; never nil.
func names(sources history.Sources) []string {
	out := make([]string, 0, len(sources))
	for _, s := range sources {
		out = append(out, s.Name)
	}
	return out
}
