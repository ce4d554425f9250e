package view

import (
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Changes are the ops that the consumer gets of a revision; none if it isn't concerned. state gives the state after the revision,
// or one as late as the caller can have it; it is called only if a SET takes it.
//
// A change that takes a pod into the view is an ADD, one that takes it out a REMOVE of the version that was in it. A visible
// source that became ready is always told: where the filter leaves no other word of it, by the empty ADD, or by the SET.
func (v *View) Changes(rev *revision.Revision, state func() *history.State) []revision.Change {
	if v.Everything() {
		return rev.Changes
	}
	var ops revision.Ops
	for _, c := range rev.Changes {
		if len(c.Pods) == 0 && v.Sees(c.Source) {
			ops.Ready(c.Source)
		}
		for i, p := range c.Pods {
			var was *revision.Pod
			if i < len(c.Was) {
				was = c.Was[i]
			}
			v.change(&ops, c.Op, p, was)
		}
	}
	if rev.BecameReady && v.Sees(rev.Source) {
		ops.Ready(rev.Source)
	}
	changes := ops.Changes(nil)
	if v.Snapshots() {
		return v.snapshot(rev, changes, state)
	}
	return changes
}

// change is what becomes of one pod of a change. was is nil where the op itself is about one version: ADD, RESTORE and REMOVE.
func (v *View) change(ops *revision.Ops, op revision.Op, p, was *revision.Pod) {
	before := p
	if was != nil {
		before = was
	}
	switch held, holds := v.Matches(before), v.Matches(p); {
	case held && holds:
		ops.Add(op, p, was)
	case holds:
		ops.Add(revision.ADD, p, nil)
	case held && !failpoint.Active(failpoint.DropLeave):
		ops.Add(revision.REMOVE, before, nil)
	}
}

// snapshot puts the consumer's incremental changes into the ops of its mode. The choice is the kubelet's (podStorage.Merge in
// pkg/kubelet/config): pods that come or go, or a source's first set, are told by a SET of all pods of all sources; changed ones
// by ops of their own, or by the SET too; RECONCILE isn't told. Beyond the kubelet's, the
// REMOVEs that the SET leaves unsaid stand before it.
func (v *View) snapshot(rev *revision.Revision, changes []revision.Change, state func() *history.State) []revision.Change {
	full := rev.BecameReady && v.Sees(rev.Source)
	var updates []revision.Change
	for _, c := range changes {
		switch c.Op {
		case revision.REMOVE, revision.ADD, revision.RESTORE:
			full = true
		case revision.UPDATE, revision.DELETE:
			if v.mode == podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT {
				full = true
			} else {
				updates = append(updates, c)
			}
		}
	}
	if !full {
		return updates
	}
	source := rev.Source
	if source != "" && !v.Sees(source) {
		// Another source's set freed a name for a pod that the consumer sees; of that source it must not even hear.
		source = changes[0].Source
	}
	st := state()
	set := revision.Change{Op: revision.SET, Source: source, Pods: v.Pods(st.Pods)}
	return append(append(v.Unsaid(changes, st.Sources, rev.Number), set), updates...)
}

// Unsaid are those of the changes that a SET after revision number leaves unsaid: the REMOVEs of sources that aren't ready then, or
// that the consumer doesn't see, as it keeps what a SET doesn't have of them. sources are as of that revision or a later one.
func (v *View) Unsaid(changes []revision.Change, sources history.Sources, number uint64) []revision.Change {
	var out []revision.Change
	for _, c := range changes {
		if c.Op == revision.REMOVE && !(v.Sees(c.Source) && sources.ReadyAt(c.Source, number)) {
			out = append(out, c)
		}
	}
	return out
}
