package service

import (
	"slices"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// said is what heartbeats tell beside the revisions, and synced in part.
type said struct {
	path      []*podconfigv1.RelayHop
	temporary bool
	// at is when.
	at time.Time
}

// news tells whether a heartbeat would tell of another path or another state of the store than the consumer has been told.
func (w *watch) news() bool {
	same := func(a, b *podconfigv1.RelayHop) bool { return a.GetId() == b.GetId() && a.GetNode() == b.GetNode() }
	return w.said.temporary != w.history.Life().Temporary || !slices.EqualFunc(w.said.path, w.server.cfg.Path(), same)
}

// beat sends a heartbeat. It bears a cursor if revisions have gone by that held nothing for this view: so a consumer's cursor
// doesn't grow old while nothing happens to it.
func (w *watch) beat() error {
	at, life := w.at.Load(), w.history.Life()
	w.said = said{path: w.server.cfg.Path(), temporary: life.Temporary, at: w.server.clock.Now()}
	m := &podconfigv1.Heartbeat{
		Revision: at, Sources: w.readiness(), StoreState: podconfigv1.StoreState_STORE_STATE_DURABLE, Path: w.said.path,
	}
	if life.Temporary {
		m.StoreState = podconfigv1.StoreState_STORE_STATE_TEMPORARY
	}
	resp := &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: m}}
	// Also if another life counts now: after trouble with the store, so that the consumer's cursor is one that will last.
	if at > w.told || w.cursor.Load().GetInstanceId() != life.Instance {
		resp.Cursor = w.cursorAt(life.Instance, at)
	}
	if err := w.out.message(resp); err != nil {
		return err
	}
	if resp.Cursor != nil {
		w.arrived(resp.Cursor)
	}
	return nil
}

// readiness is that of the sources that the consumer sees, at its revision.
func (w *watch) readiness() []*podconfigv1.SourceReadiness {
	at := w.at.Load()
	var out []*podconfigv1.SourceReadiness
	for _, src := range w.view.Sources(w.sources) {
		out = append(out, &podconfigv1.SourceReadiness{Name: src.Name, Ready: src.ReadyAt(at)})
	}
	return out
}
