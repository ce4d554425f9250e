package service

import (
	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// reached are the positions up to which this podconfigd's pods are current, as the consumer sees them. While revisions are
// on the way to the consumer, they are only those of its cursor: a relay passes them on as its own, and doesn't have the
// pods of those revisions yet.
func (w *watch) reached() []*podconfigv1.SourcePosition {
	// A source's positions are recorded after its revision is published, so they are read first.
	all := w.history.Positions()
	if w.at.Load() == w.history.Number() {
		return all.Select(w.shown.Lists).Bounded(w.claimed).Proto()
	}
	free := func(source string) bool { return w.shown.Lists(source) && w.heldReason(source) == "" }
	return w.positions.Select(free).Plain().Bounded(w.claimed).Proto()
}

// forget drops the positions of sources that were removed since the consumer's revision, whether or not they were configured
// again. Their pods go with them. Those of held sources stay: the consumer has the pods.
func (w *watch) forget(after history.Sources) {
	at := w.at.Load()
	w.positions = w.positions.Select(func(source string) bool {
		return w.held != nil && w.held.sources[source] != nil || after.Configured(source) && (at == 0 || after.AddedBy(source, at))
	})
}

// cursorAt returns the cursor after a revision. positions are those of the revision; nil: the consumer's stay.
func (w *watch) cursorAt(instance string, number uint64, positions position.Positions) *podconfigv1.Cursor {
	c := &podconfigv1.Cursor{InstanceId: instance, Revision: number, View: w.view.Hash()}
	if w.held != nil {
		c.View += heldView
	}
	if c.PodconfigdId = w.server.cfg.ID; w.held.byMove() {
		c.PodconfigdId = w.resume.GetPodconfigdId()
	}
	c.Positions = w.advanced(positions).Bounded(w.claimed).Proto()
	return c
}

// advanced returns the consumer's positions after a revision with those positions. That of a held source stays.
func (w *watch) advanced(positions position.Positions) position.Positions {
	return position.Advance(w.positions, positions.Select(w.shown.Sees))
}

// isLevel reports whether the consumer's positions after the revision are the revision's, as for most consumers: after
// the first change, no position is higher.
func (w *watch) isLevel(rev *revision.Revision) bool {
	return position.Reaches(rev.Positions, w.positions)
}
