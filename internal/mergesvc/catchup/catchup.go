package catchup

import (
	"cmp"
	"slices"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// Fresh returns the changes for a consumer that holds nothing: each source's pods as ADD, or RESTORE if they are
// stale. In the snapshot modes it is a SET.
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

// Set returns the changes for a consumer that holds the pods of revision number, and perhaps others: one SET of all
// pods, labelled with the first source. Before it stand the REMOVEs since then of sources that aren't ready, which
// the SET doesn't imply. An empty ADD follows for each source that became ready since: the SET reports that for the
// source of its label only.
func Set(st *history.State, number uint64, v *view.View) []revision.Change {
	return asSet(since(st, number, v), st, number, v)
}

// asSet turns changes since revision number into those of a consumer that gets a SET.
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

// Coalesced returns the changes for a consumer at revision number: one op for each pod that changed since. In the
// snapshot modes that is a Set, or nothing if nothing in the view was added, removed, changed or became ready. It is
// false if removals since then may have been dropped, or, for a consumer that gets redacted pods, if it isn't known
// which changes it could see.
func Coalesced(st *history.State, number uint64, v *view.View) ([]revision.Change, bool) {
	if number < v.Horizon(st) || number > st.Number {
		return nil, false
	}
	changes := since(st, number, v)
	// The history may meanwhile have dropped revisions without comparing them.
	if number < v.Horizon(st) {
		return nil, false
	}
	if v.Snapshots() {
		changes = snapshot(changes, st, number, v)
	}
	return changes, true
}

// snapshot turns changes since revision number into those of the snapshot modes: a SET, or nothing if these don't
// report the changes.
func snapshot(changes []revision.Change, st *history.State, number uint64, v *view.View) []revision.Change {
	if !reportsMore(changes) {
		return nil
	}
	return asSet(changes, st, number, v)
}

// since returns one op for each pod that changed since revision number, without dropped removals.
func since(st *history.State, number uint64, v *view.View) []revision.Change {
	if number >= st.Number {
		return nil
	}
	var ops revision.Ops
	after, _ := slices.BinarySearchFunc(st.Tombstones, number+1, func(t history.Tombstone, first uint64) int {
		return cmp.Compare(t.Removed, first)
	})
	for _, t := range st.Tombstones[after:] {
		if t.Pod.Created <= number && mayMatch(v, t.Pod) && !failpoint.Active(failpoint.ForgetTombstones) {
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

// coalesce adds the op for a pod to a consumer that has everything up to revision number.
func coalesce(ops *revision.Ops, p *revision.Pod, number uint64, v *view.View) {
	matches := v.Matches(p)
	specChanged, statusChanged := p.SpecChanged, p.StatusChanged
	if max(specChanged, statusChanged) > number {
		specChanged, statusChanged = v.Changed(p)
	}
	switch {
	case p.Created > number:
		if matches {
			appear(ops, p)
		}
	case specChanged > number && !v.Fixed():
		// Whether it matched before isn't known any more.
		if matches {
			ops.Add(revision.ADD, p, nil)
		} else if mayMatch(v, p) {
			ops.Add(revision.REMOVE, p, nil)
		}
	case !matches:
	case specChanged > number:
		change(ops, p)
	case statusChanged > number:
		ops.Add(revision.RECONCILE, p, nil)
	}
}

// appear adds the op for a pod that the consumer doesn't hold.
func appear(ops *revision.Ops, p *revision.Pod) {
	if p.Stale {
		ops.Add(revision.RESTORE, p, nil)
	} else {
		ops.Add(revision.ADD, p, nil)
	}
}

// change adds the op for a pod of which the consumer holds another spec.
func change(ops *revision.Ops, p *revision.Pod) {
	if p.Object.DeletionTimestamp != nil {
		ops.Add(revision.DELETE, p, nil)
	} else {
		ops.Add(revision.UPDATE, p, nil)
	}
}

// mayMatch compares the pod's name and source, and its node with the caller's scope: for a pod that changed or was
// removed, only these are known to be unchanged.
func mayMatch(v *view.View, p *revision.Pod) bool {
	return v.InScope(p) && v.MayMatch(p.Source, p.UID(), p.Object.Namespace, p.Object.Name)
}

// reportsMore reports whether the changes have more than RECONCILE, which the snapshot modes don't send.
func reportsMore(changes []revision.Change) bool {
	// RECONCILE is last.
	return len(changes) > 0 && changes[0].Op != revision.RECONCILE
}

// names returns the names of the configured sources, in order of priority; never nil.
func names(sources history.Sources) []string {
	out := make([]string, 0, len(sources))
	for _, s := range sources {
		out = append(out, s.Name)
	}
	return out
}
