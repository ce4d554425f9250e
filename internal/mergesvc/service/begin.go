package service

import (
	"fmt"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// begin takes the consumer from where it says it is to the current state, and says so.
func (w *watch) begin() error {
	st := w.history.State()
	at, ok := w.placed(st)
	// It may be much, and is needed once.
	known := w.known
	w.known = nil
	how := metrics.Fresh
	switch {
	case ok:
		// Whatever it takes from here, exact history or a coalesced catch-up, follow finds out.
		// What is published meanwhile can wait: a consumer that is always behind must get to its synced, too.
		how, w.pending, w.told = metrics.Exact, w.undecided(st, at, known), at
		// If nobody knows them any more it is caught up first, and that tells.
		if sources, known := w.history.SourcesAt(at); known {
			w.sources = sources
		}
		w.at.Store(at)
		for w.at.Load() < st.Number {
			if _, _, err := w.follow(); err != nil {
				return err
			}
			if w.server.isClosing() {
				return goingDown()
			}
		}
		st = w.history.State()
	case len(known) > 0:
		how = metrics.Known
		var changes []revision.Change
		changes, w.pending = catchup.FromKnown(st, known, w.view)
		w.logRemovals(changes)
		if err := w.jump(st, changes); err != nil {
			return err
		}
	case w.resume != nil:
		how = metrics.Set
		if err := w.jump(st, catchup.Set(st, st.Number, w.view)); err != nil {
			return err
		}
	default:
		if err := w.jump(st, catchup.Fresh(st, w.view)); err != nil {
			return err
		}
	}
	if w.behind == "" {
		w.server.metrics.Catchups.WithLabelValues(how).Inc()
	} else {
		how = w.behind
	}
	w.log.Info("consumer is synced", "how", how, "revision", w.at.Load(), "pods", len(st.Pods))
	cursor := w.cursorAt(st.Instance, w.at.Load())
	w.said = said{path: w.server.cfg.Path(), temporary: st.Temporary, at: w.server.clock.Now()}
	err := w.out.message(&podconfigv1.WatchPodUpdatesResponse{
		Event:  &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: w.readiness(), Path: w.said.path}},
		Cursor: cursor,
	})
	w.arrived(cursor)
	w.synced.Store(true)
	return err
}

// placed tells whether the consumer's cursor belongs to this history and view, and at which revision it is. One that is older than
// all that is remembered is worth less than the known pods, if there are any.
func (w *watch) placed(st *history.State) (uint64, bool) {
	c := w.resume
	if c == nil || !w.history.Knows(c.GetInstanceId()) || c.GetView() != w.view.Hash() || c.GetRevision() > st.Number {
		return 0, false
	}
	if _, kept, _ := w.history.Next(c.GetRevision()); !kept && c.GetRevision() < st.Horizon && len(w.known) > 0 {
		return 0, false
	}
	if failpoint.Active(failpoint.ResendCovered) && c.GetRevision() > 0 {
		return c.GetRevision() - 1, true
	}
	return c.GetRevision(), true
}

// logRemovals tells of the pods that only this consumer had, the first by name: no revision's log line names them.
func (w *watch) logRemovals(changes []revision.Change) {
	const named = 10
	count, first := 0, []string{}
	for _, c := range changes {
		if c.Op != revision.REMOVE {
			continue
		}
		count += len(c.Pods)
		for _, p := range c.Pods[:min(len(c.Pods), named-len(first))] {
			first = append(first, fmt.Sprintf("%s uid=%s source=%s", p, p.UID(), p.Source))
		}
	}
	if count > 0 {
		w.log.Info("consumer holds pods that are gone and is told to remove them", "count", count, "first", first)
	}
}

// undecided are the known pods that were open at revision at. What had their UIDs then may be gone by now.
func (w *watch) undecided(st *history.State, at uint64, known []catchup.Known) *catchup.Pending {
	if len(known) > 0 {
		if then, ok := w.history.StateAt(at); ok {
			st = then
		}
	}
	return catchup.Undecided(st, at, known, w.view)
}
