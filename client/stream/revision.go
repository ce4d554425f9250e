package stream

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Revision is what came up to a cursor: a whole revision, a whole catch-up, the end of the initial state, or a heartbeat.
type Revision struct {
	// Updates are the ops in the order in which they are to be applied, all or none; each is whole, however many messages it took.
	Updates []*podconfigv1.PodUpdate
	// Synced is set at the end of the initial state. It may have Updates: a SET that starts a stream is completed by it.
	Synced *podconfigv1.Synced
	// Heartbeat is set if podconfigd had nothing else to say.
	Heartbeat *podconfigv1.Heartbeat
	// Cursor is where the consumer is once it has applied all of this. Nil only on a heartbeat that doesn't move it.
	Cursor *podconfigv1.Cursor
}

// tellsSources tells whether Sources are all that are configured. None may be, for all that the consumer may see.
func (r *Revision) tellsSources() bool { return r.Synced != nil || r.Heartbeat != nil }

// Sources is the readiness of all configured sources, in order of priority. Nil if the revision doesn't tell it.
func (r *Revision) Sources() []*podconfigv1.SourceReadiness {
	if r.Synced != nil {
		return r.Synced.GetSources()
	}
	return r.Heartbeat.GetSources()
}

// add appends an op, or joins it to the one before if both are fragments of one. An op without pods is whole in itself, but for a
// SET, of which a revision has only one.
func (r *Revision) add(u *podconfigv1.PodUpdate) {
	if n := len(r.Updates); n > 0 && fragments(r.Updates[n-1], u) {
		r.Updates[n-1].Pods = append(r.Updates[n-1].Pods, u.GetPods()...)
		return
	}
	r.Updates = append(r.Updates, u)
}

// fragments tells whether two ops that follow each other are parts of one.
func fragments(a, b *podconfigv1.PodUpdate) bool {
	if a.GetOp() != b.GetOp() || a.GetSource() != b.GetSource() || a.GetSourceReady() != b.GetSourceReady() {
		return false
	}
	return len(a.GetPods()) > 0 && len(b.GetPods()) > 0 || a.GetOp() == podconfigv1.PodOperation_POD_OPERATION_SET
}
