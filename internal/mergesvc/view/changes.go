package view

import (
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Changes returns the ops that the consumer gets of a revision, or none. state returns the state after the revision,
// or a later one; it is called only for a SET.
//
// A change that moves a pod into the view is an ADD. One that moves it out is a REMOVE of the version that was in the
// view. A visible source that became ready is always reported: by an empty ADD, or by the SET, if no other op of it
// passes the filter.
func (v *View) Changes(rev *revision.Revision, state func() *history.State) []revision.Change {
	if v.Everything() && !v.redacted {
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

// change adds the ops for one pod of a change. was is nil where the op concerns one version only: ADD, RESTORE and
// REMOVE.
func (v *View) change(ops *revision.Ops, op revision.Op, p, was *revision.Pod) {
	before := p
	if was != nil {
		before = was
	}
	switch held, holds := v.Matches(before), v.Matches(p); {
	case held && holds:
		if op, ok := v.seen(op, p, was); ok {
			ops.Add(op, p, was)
		}
	case holds:
		ops.Add(revision.ADD, p, nil)
	case held && !failpoint.Active(failpoint.DropLeave):
		ops.Add(revision.REMOVE, before, nil)
	}
}

// seen returns the op by which the consumer sees that p replaces was, and false if it sees no difference. A caller
// that gets redacted pods gets no op for a change of a hidden value only, and no op for the spec where it sees only
// another status.
func (v *View) seen(op revision.Op, p, was *revision.Pod) (revision.Op, bool) {
	if !v.redacted || was == nil {
		return op, true
	}
	spec, status := v.Digests(p)
	specWas, statusWas := v.Digests(was)
	switch {
	case spec != specWas, spec == "": // Empty: the pod couldn't be redacted.
		return op, true
	case status != statusWas:
		return revision.RECONCILE, true
	default:
		return op, false
	}
}

// snapshot puts the consumer's incremental changes into the ops of its mode. The choice is the kubelet's
// (podStorage.Merge in pkg/kubelet/config): added or removed pods, and a source's first set, are reported by a SET of
// all pods of all sources; changed pods by ops of their own, or by the SET; RECONCILE isn't sent. Unlike in the
// kubelet, the REMOVEs that the SET doesn't express precede it.
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
		// Another source's set released a name to a pod that the consumer sees; it must not learn of that source.
		source = changes[0].Source
	}
	st := state()
	set := revision.Change{Op: revision.SET, Source: source, Pods: v.Pods(st.Pods)}
	return append(append(v.Unsaid(changes, st.Sources, rev.Number), set), updates...)
}

// Unsaid returns the changes that a SET after revision number doesn't express: the REMOVEs of sources that aren't
// ready then, or that the consumer doesn't see. The consumer keeps the pods of these that a SET lacks. sources are
// those after that revision or a later one.
func (v *View) Unsaid(changes []revision.Change, sources history.Sources, number uint64) []revision.Change {
	var out []revision.Change
	for _, c := range changes {
		if c.Op == revision.REMOVE && !(v.Sees(c.Source) && sources.ReadyAt(c.Source, number)) {
			out = append(out, c)
		}
	}
	return out
}
