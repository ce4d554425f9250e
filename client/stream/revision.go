package stream

import (
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Revision is a whole revision, a whole catch-up, the end of the initial state, or a heartbeat.
type Revision struct {
	// Updates are applied in this order, all or none. Each op is whole, however many messages it took.
	Updates []*podconfigv1.PodUpdate
	// Synced is set at the end of the initial state. It may come with Updates: a SET at the start of a stream.
	Synced *podconfigv1.Synced
	// Heartbeat is set if the message is a heartbeat.
	Heartbeat *podconfigv1.Heartbeat
	// Cursor is the consumer's position once it has applied the revision. It is nil only on a heartbeat that doesn't
	// move the consumer.
	Cursor *podconfigv1.Cursor
}

// listsSources reports whether the revision lists all configured sources. The list may be empty if the consumer's
// view has none.
func (r *Revision) listsSources() bool { return r.Synced != nil || r.Heartbeat != nil }

// hasSet reports whether the revision has a SET.
func (r *Revision) hasSet() bool {
	return slices.ContainsFunc(r.Updates, func(u *podconfigv1.PodUpdate) bool { return u.GetOp() == opSet })
}

// Sources returns the readiness of all configured sources, in order of priority. Nil means that the revision doesn't
// list them.
func (r *Revision) Sources() []*podconfigv1.SourceReadiness {
	if r.Synced != nil {
		return r.Synced.GetSources()
	}
	return r.Heartbeat.GetSources()
}

// add appends an op, or joins it to the one before if both are fragments of one op. An op without pods is never a
// fragment, except a SET: a revision has only one.
func (r *Revision) add(u *podconfigv1.PodUpdate) {
	if n := len(r.Updates); n > 0 && fragments(r.Updates[n-1], u) {
		r.Updates[n-1].Pods = append(r.Updates[n-1].Pods, u.GetPods()...)
		return
	}
	r.Updates = append(r.Updates, u)
}

// fragments reports whether two successive ops are fragments of one.
func fragments(a, b *podconfigv1.PodUpdate) bool {
	if a.GetOp() != b.GetOp() || a.GetSource() != b.GetSource() || a.GetSourceReady() != b.GetSourceReady() {
		return false
	}
	return len(a.GetPods()) > 0 && len(b.GetPods()) > 0 || a.GetOp() == podconfigv1.PodOperation_POD_OPERATION_SET
}
