package service

import (
	"maps"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/history"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// said is the state that heartbeats, and in part synced, report beside the revisions.
type said struct {
	path      []*podconfigv1.RelayHop
	temporary bool
	// at is when it was sent.
	at time.Time
}

// equal reports whether a consumer needs no heartbeat for the difference.
func (s said) equal(other said) bool {
	same := func(a, b *podconfigv1.RelayHop) bool { return a.GetId() == b.GetId() && a.GetNode() == b.GetNode() }
	return s.temporary == other.temporary && slices.EqualFunc(s.path, other.path, same)
}

// heartbeatState returns what the heartbeats of all streams report, the paths of all sources together.
func (s *Server) heartbeatState() said {
	path := slices.Clone(s.cfg.Path())
	for _, src := range s.history.Sources() {
		path = append(path, s.cfg.SourcePath(src.Name)...)
	}
	return said{path: path, temporary: s.history.Instance().Temporary}
}

// outdated reports whether the path or the state of the store differs from what the consumer was sent last.
func (w *watch) outdated() bool {
	return !w.said.equal(said{path: w.path(), temporary: w.history.Instance().Temporary})
}

// beat sends a heartbeat. It has a cursor if revisions without ops for this view were published, so that a consumer's
// cursor doesn't become too old while its pods don't change.
func (w *watch) beat() error {
	at, instance := w.at.Load(), w.history.Instance()
	if err := w.checkForsaken(); err != nil {
		return err
	}
	w.said = said{path: w.path(), temporary: instance.Temporary, at: w.server.clock.Now()}
	m := &podconfigv1.Heartbeat{
		Revision: at, Sources: w.readiness(), StoreState: podconfigv1.StoreState_STORE_STATE_DURABLE, Path: w.said.path,
		Positions: w.reached(),
	}
	if instance.Temporary {
		m.StoreState = podconfigv1.StoreState_STORE_STATE_TEMPORARY
	}
	resp := &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: m}}
	// Also after a change of instance, when the store failed or works again, so that the consumer's cursor lasts.
	if !w.passed && (at > w.sentCursor || w.cursor.Load().GetInstanceId() != instance.ID) {
		resp.Cursor = w.cursorAt(instance.ID, at, nil)
	}
	if err := w.out.message(resp); err != nil {
		return err
	}
	if resp.Cursor != nil {
		w.arrived(resp.Cursor)
	}
	return nil
}

// path is the path as the consumer sees it.
func (w *watch) path() []*podconfigv1.RelayHop {
	if !w.scoped {
		return w.server.cfg.Path()
	}
	return w.server.pathFor(w.caller, w.shown.Listed(w.sources))
}

// readiness is the readiness of the sources that the consumer sees, at its revision.
func (w *watch) readiness() []*podconfigv1.SourceReadiness {
	return w.readinessOf(w.sources, w.at.Load())
}

// readinessOf is the readiness of the sources that the consumer sees, at a revision.
func (w *watch) readinessOf(sources history.Sources, at uint64) []*podconfigv1.SourceReadiness {
	var out []*podconfigv1.SourceReadiness
	for _, src := range w.shown.Listed(sources) {
		reason := w.heldReason(src.Name)
		out = append(out, &podconfigv1.SourceReadiness{Name: src.Name, Ready: src.ReadyAt(at) && reason == "", HeldReason: reason})
	}
	if w.held == nil {
		return out
	}
	for _, source := range slices.Sorted(maps.Keys(w.held.sources)) {
		if !sources.Configured(source) {
			// The consumer takes a source that isn't listed for one that isn't configured, and would remove its pods.
			out = append(out, &podconfigv1.SourceReadiness{Name: source, HeldReason: w.heldReason(source)})
		}
	}
	return out
}
