package service

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// reached are the positions up to which this podconfigd's pods are current, as the consumer sees them. While revisions are
// on the way to the consumer, they are only those of its cursor: a relay passes them on as its own, and doesn't have the
// pods of those revisions yet.
func (w *watch) reached() []*podconfigv1.SourcePosition {
	// A source's positions are recorded after its revision is published, so they are read first.
	all := w.history.Positions()
	if w.at.Load() == w.history.Number() {
		return all.Select(w.shown.Lists).Proto()
	}
	free := func(source string) bool { return w.shown.Lists(source) && w.heldReason(source) == "" }
	return w.positions.Select(free).Plain().Proto()
}
