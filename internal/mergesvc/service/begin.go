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

// begin sends what takes the consumer from its position to the current state, and then synced.
func (w *watch) begin() error {
	how, err := w.toState()
	if err != nil {
		return err
	}
	for w.passed {
		if err := w.step(); err != nil {
			return err
		}
	}
	if w.behind == "" {
		w.server.metrics.Catchups.WithLabelValues(how).Inc()
	} else {
		how = w.behind
	}
	w.log.Info("consumer is synced", "how", how, "revision", w.at.Load())
	instance := w.history.Instance()
	cursor := w.cursorAt(instance.ID, w.at.Load(), nil)
	w.said = said{path: w.path(), temporary: instance.Temporary, at: w.server.clock.Now()}
	err = w.out.message(&podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{
			Sources: w.readiness(), Path: w.said.path, Positions: w.reached(),
		}},
		Cursor: cursor,
	})
	w.arrived(cursor)
	w.positions = w.positions.Plain()
	w.synced.Store(true)
	return err
}

// step sends the next unit on the way to the current state, unless the server is closing.
func (w *watch) step() error {
	if _, _, err := w.follow(); err != nil {
		return err
	}
	if w.server.isClosing() {
		return goingDown()
	}
	return nil
}

// toState sends what takes the consumer from its position to the current state, and returns how it did so.
func (w *watch) toState() (how string, err error) {
	w.checkInstance()
	w.hold()
	st := w.reader.State()
	at, ok := w.placed(st)
	// The known pods may be large, and are needed once.
	known := w.known
	w.known = nil
	switch {
	case ok:
		// follow sends the rest, as exact history or as a coalesced catch-up. Revisions published meanwhile wait: a
		// consumer that is always behind must get its synced, too.
		w.pending, w.sentCursor, w.resumed = w.undecided(st, at, known), at, w.resume.GetInstanceId()
		// If they aren't known any more, the consumer is caught up first, which sets them.
		if sources, known := w.history.SourcesAt(at); known {
			w.sources = sources
		}
		w.at.Store(at)
		for now := st.Number; w.at.Load() < now; {
			if err := w.step(); err != nil {
				return "", err
			}
		}
		return metrics.Exact, nil
	case len(known) > 0 || w.held != nil && !w.held.unsaid:
		var changes []revision.Change
		changes, w.pending = catchup.FromKnown(st, known, w.shown)
		w.logRemovals(changes)
		return metrics.Known, w.jump(st, w.unconfirmed(changes))
	case w.resume != nil:
		return metrics.Set, w.jump(st, catchup.Set(st, st.Number, w.shown))
	default:
		return metrics.Fresh, w.jump(st, w.unconfirmed(catchup.Fresh(st, w.shown)))
	}
}

// unconfirmed returns the initial changes with the pods of silent sources as known from before.
func (w *watch) unconfirmed(changes []revision.Change) []revision.Change {
	if w.shown.Snapshots() {
		return changes
	}
	return revision.Restored(changes, w.server.cfg.Silent)
}

// checkInstance reports a cursor of the current instance that is beyond its last revision, if this podconfigd made it, as
// far as it says so. Inspectors aren't believed.
func (w *watch) checkInstance() {
	c, rewound := w.resume, w.server.cfg.Rewound
	if rewound == nil || w.view.Redacted() || c.GetInstanceId() == "" || c.GetInstanceId() != w.history.Instance().ID {
		return
	}
	if c.GetPodconfigdId() == w.server.cfg.ID && c.GetRevision() > w.history.Number() {
		rewound(c.GetRevision())
	}
}

// checkForsaken ends a stream that went on from a cursor that podconfigd doesn't accept any more, as it has found that its
// disk went back: the cursor's revision may have been another one. The consumer comes back with its known pods.
func (w *watch) checkForsaken() error {
	if w.resumed != "" && w.history.IsForsaken(w.resumed) {
		return unavailable("podconfigd was started with an old copy of its store; subscribe again, with the known pods")
	}
	return nil
}

// placed returns the revision of the consumer's cursor, and whether the cursor belongs to this history and view. If
// the cursor is older than all that is kept, the known pods are used instead, if there are any.
func (w *watch) placed(st *history.State) (uint64, bool) {
	c := w.resume
	if c == nil || !w.history.Knows(c.GetInstanceId()) || c.GetView() != w.shown.Hash() || c.GetRevision() > st.Number {
		return 0, false
	}
	expired := c.GetRevision() < w.shown.Horizon(st)
	if _, kept, _ := w.history.Next(c.GetRevision()); !kept && expired && len(w.known) > 0 {
		return 0, false
	}
	if failpoint.Active(failpoint.ResendCovered) && c.GetRevision() > 0 {
		return c.GetRevision() - 1, true
	}
	return c.GetRevision(), true
}

// logRemovals logs the removal of pods that only this consumer had, and the name of the first: no revision's log line
// names them.
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
		w.log.Info("consumer holds pods that are gone, and is sent their removal", "count", count, "first", first)
	}
}

// undecided returns the known pods that were open at revision at. Other pods may have their UIDs by now.
func (w *watch) undecided(st *history.State, at uint64, known []catchup.Known) *catchup.Pending {
	if len(known) > 0 {
		if then, ok := w.reader.StateAt(at); ok {
			st = then
		}
	}
	return catchup.Undecided(st, at, known, w.shown)
}
