package service

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// deliver sends one revision.
func (w *watch) deliver(rev *revision.Revision) error {
	if err := w.checkValid(); err != nil {
		return err
	}
	span := w.startSpan(rev)
	defer span.End()
	if rev.Sources != nil {
		w.forget(w.sources.After(rev))
	}
	if w.everything && w.pending.Empty() && w.isLevel(rev) {
		return w.deliverShared(rev)
	}
	left := false
	at := func() *history.State {
		if st, ok := w.reader.StateAt(rev.Number); ok {
			return st
		}
		left = true
		return w.reader.State()
	}
	changes := w.shown.Changes(rev, at)
	if !left {
		if rev.Sources != nil {
			w.pending.Configure(w.sources.After(rev))
		}
		changes = w.pending.Settle(changes, rev.Number, func() *history.State {
			if st := at(); !left {
				return st
			}
			return nil
		})
	}
	if left {
		return errLeft
	}
	if len(changes) == 0 {
		return nil
	}
	if err := w.prepare(changes); err != nil {
		return err
	}
	u, published := w.unitOf(rev), rev.Published
	u.Changes = changes
	positions := w.advanced(rev.Positions)
	if err := w.unit(&u); err != nil {
		return err
	}
	w.positions = positions.Plain()
	w.delivered(published)
	return nil
}

// prepare sends which sources are ready before the first SET that precedes synced. The consumer needs it to decide
// what the SET removes; should the stream break before synced, the consumer resumes with the cursor of the SET.
func (w *watch) prepare(changes []revision.Change) error {
	isSet := func(c revision.Change) bool { return c.Op == revision.SET }
	if w.prepared || w.synced.Load() || !slices.ContainsFunc(changes, isSet) {
		return nil
	}
	w.prepared = true
	return w.beat()
}

// sharedKey is the key of what all consumers with one encoding and view share of a revision.
type sharedKey struct {
	encoding revision.Encoding
	view     string
}

// shared is a revision in bytes, cursor included, for all consumers that see everything in one encoding.
type shared struct {
	// frame is the revision's only message. It is a wire.Frame, converted to an interface once and not by each
	// stream. Nil if there is no message, or many is set.
	frame  any
	many   bool
	cursor *podconfigv1.Cursor
	err    error
}

func (w *watch) deliverShared(rev *revision.Revision) error {
	s, ok := rev.Made(w.sharing).(*shared)
	if !ok {
		s = rev.Shared(w.sharing, func() any { return w.share(rev) }).(*shared)
	}
	published, cursor, positions := rev.Published, s.cursor, rev.Positions
	switch {
	case s.err != nil:
		return statusOf(s.err)
	case s.many:
		u := w.shownUnitOf(rev)
		if err := w.unit(&u); err != nil {
			return err
		}
	case s.frame == nil:
		return nil
	default:
		if err := w.out.send(s.frame); err != nil {
			return err
		}
		w.arrived(cursor)
	}
	w.positions = positions
	w.delivered(published)
	return nil
}

func (w *watch) share(rev *revision.Revision) *shared {
	u := w.shownUnitOf(rev)
	out := &shared{cursor: u.Cursor}
	for frame, err := range wire.Frames(u, w.encoding) {
		switch {
		case err != nil:
			return &shared{err: err}
		case out.frame != nil:
			return &shared{many: true}
		}
		out.frame = frame
	}
	return out
}

// shownUnitOf returns the revision as a consumer without a filter sees it. Its view needs no state, as it makes no
// SET.
func (w *watch) shownUnitOf(rev *revision.Revision) wire.Unit {
	u := w.unitOf(rev)
	u.Changes = w.shown.Changes(rev, nil)
	return u
}

func (w *watch) unitOf(rev *revision.Revision) wire.Unit {
	return wire.Unit{
		Number: rev.Number, Changes: rev.Changes, Observed: rev.Observed, Trace: rev.Trace, Sources: w.sources.After(rev),
		Before: w.sources, Cursor: w.cursorAt(rev.Instance, rev.Number, rev.Positions),
	}
}

func (w *watch) delivered(published time.Time) {
	w.server.metrics.DeliverySeconds.Observe(w.out.last.Sub(published).Seconds())
}

// arrived records the cursor that was sent.
func (w *watch) arrived(cursor *podconfigv1.Cursor) {
	w.sentCursor = cursor.GetRevision()
	w.cursor.Store(cursor)
}
