package service

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// passedView follows the hash of the view in a cursor that isn't honoured.
const passedView = "-passed"

// unit sends the unit and clears its changes.
func (w *watch) unit(u *wire.Unit) error {
	if w.held == nil {
		return w.messages(u, nil)
	}
	w.held.namesakes.apply(u)
	err := w.messages(u, w.held.namesakes.skipped)
	w.held.namesakes.settle()
	return err
}

// messages sends the unit's messages and clears its changes: for a consumer that doesn't read, nothing of them may stay in
// memory, beside the message that waits and what the history keeps anyway. skipped is as in wire.LaterConfig.
func (w *watch) messages(u *wire.Unit, skipped func(types.UID)) error {
	later, err := wire.NewLater(*u, wire.LaterConfig{
		Encoding: w.encoding, Matches: w.shown.Matches, Current: w.history.Current, Changed: w.shown.Changed,
		Skipped: skipped,
	})
	u.Changes = nil
	if err != nil {
		return statusOf(err)
	}
	// A cursor of no view: a consumer that comes back with it is caught up from its known pods or with a SET.
	passed := w.passedAt(u.Number)
	onFrame := passed
	if u.Cursor == nil {
		// A SET before synced. Synced was to carry the readiness of the sources, without which a consumer can't
		// decide what the SET removes. A heartbeat carries it instead.
		onFrame = nil
	}
	last, closed := u.Cursor, false
	for more := true; more; {
		var frame wire.Frame
		if onFrame != nil {
			// The frame may have the versions of now.
			passed = w.passedAt(u.Number)
			onFrame = passed
		}
		if frame, more, err = later.Next(u.Cursor, onFrame); err != nil {
			return statusOf(err)
		}
		if frame == nil {
			continue
		}
		closed = !more && onFrame != nil
		if err := w.out.frame(frame); err != nil {
			return err
		}
	}
	if w.passed = later.Passed(); w.passed {
		if !closed {
			passed = w.passedAt(u.Number)
		}
		last = passed
	}
	if last == nil || later.Sent() == 0 {
		return nil
	}
	if w.passed && !closed {
		if err := w.closeUnit(u, passed); err != nil {
			return err
		}
	}
	w.arrived(last)
	return nil
}

// passedAt returns the cursor of a unit that was passed, with the positions that the history has now.
func (w *watch) passedAt(number uint64) *podconfigv1.Cursor {
	c := w.cursorAt(w.history.Instance().ID, number, w.history.Published())
	c.View = w.shown.Hash() + passedView
	return c
}

// closeUnit ends a passed unit with a heartbeat, if its last message is gone or the unit has no readiness. The
// heartbeat has the sources at the unit's revision.
func (w *watch) closeUnit(u *wire.Unit, cursor *podconfigv1.Cursor) error {
	return w.out.message(&podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
			Revision: u.Number, Sources: w.readinessOf(u.Sources, u.Number), Path: w.server.pathFor(w.caller, w.shown.Listed(u.Sources)),
		}},
		Cursor: cursor,
	})
}
