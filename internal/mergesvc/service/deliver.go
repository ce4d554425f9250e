package service

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// deliver sends one revision.
func (w *watch) deliver(rev *revision.Revision) error {
	span := w.startSpan(rev)
	defer span.End()
	if w.everything && w.pending.Empty() {
		return w.deliverShared(rev)
	}
	left := false
	at := func() *history.State {
		if st, ok := w.history.StateAt(rev.Number); ok {
			return st
		}
		left = true
		return w.history.State()
	}
	changes := w.view.Changes(rev, at)
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
	u := w.unitOf(rev)
	u.Changes = changes
	if err := w.out.unit(u); err != nil {
		return err
	}
	w.delivered(rev, u.Cursor)
	return nil
}

// prepare tells which sources are ready before the first SET that comes before synced: what to remove the consumer can tell only
// by that, and it will come back with the cursor of the SET, should the stream break before synced.
func (w *watch) prepare(changes []revision.Change) error {
	isSet := func(c revision.Change) bool { return c.Op == revision.SET }
	if w.prepared || w.synced.Load() || !slices.ContainsFunc(changes, isSet) {
		return nil
	}
	w.prepared = true
	return w.beat()
}

// sharedKey names what all consumers with one encoding and view share of a revision.
type sharedKey struct {
	encoding revision.Encoding
	view     string
}

// shared is a revision in bytes, cursor included, for all who see everything in one encoding.
type shared struct {
	// frames are of type wire.Frame, put into an interface here and not by each stream that sends them.
	frames []any
	cursor *podconfigv1.Cursor
	err    error
}

func (w *watch) deliverShared(rev *revision.Revision) error {
	s, ok := rev.Made(w.sharing).(*shared)
	if !ok {
		s = rev.Shared(w.sharing, func() any { return w.share(rev) }).(*shared)
	}
	if s.err != nil {
		return status.Error(codes.Internal, s.err.Error())
	}
	for _, frame := range s.frames {
		if err := w.out.send(frame); err != nil {
			return err
		}
	}
	if len(s.frames) > 0 {
		w.delivered(rev, s.cursor)
	}
	return nil
}

func (w *watch) share(rev *revision.Revision) *shared {
	u := w.unitOf(rev)
	out := &shared{cursor: u.Cursor}
	for frame, err := range wire.Frames(u, w.encoding) {
		if err != nil {
			return &shared{err: err}
		}
		out.frames = append(out.frames, frame)
	}
	return out
}

func (w *watch) unitOf(rev *revision.Revision) wire.Unit {
	return wire.Unit{
		Number: rev.Number, Changes: rev.Changes, Observed: rev.Observed, Trace: rev.Trace, Sources: w.sources.After(rev),
		Before: w.sources, Cursor: w.cursorAt(rev.Instance, rev.Number),
	}
}

func (w *watch) cursorAt(instance string, number uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: instance, Revision: number, View: w.view.Hash()}
}

func (w *watch) delivered(rev *revision.Revision, cursor *podconfigv1.Cursor) {
	w.server.metrics.DeliverySeconds.Observe(w.out.last.Sub(rev.Published).Seconds())
	w.arrived(cursor)
}

// arrived notes the cursor that the consumer has been sent.
func (w *watch) arrived(cursor *podconfigv1.Cursor) {
	w.told = cursor.GetRevision()
	w.cursor.Store(cursor)
}
