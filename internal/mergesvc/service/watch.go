package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// watch is one stream.
type watch struct {
	*consumer
	server  *Server
	history *history.History
	log     *slog.Logger
	out     sender
	// sharing is the stream's sharedKey.
	sharing any
	// told is the revision of the last cursor that was sent.
	told uint64
	// behind is how it was caught up last, if what it had missed wasn't kept.
	behind string
	// pending are known pods of sources that hadn't spoken when the consumer came.
	pending *catchup.Pending
}

// WatchPodUpdates is part of podconfig.v1.PodConfigService.
func (s *Server) WatchPodUpdates(
	req *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	sub, err := newSubscription(stream.Context(), req)
	if err != nil {
		return err
	}
	c, err := s.consumers.add(sub)
	if err != nil {
		return err
	}
	defer s.consumers.remove(c)
	w := &watch{
		consumer: c, server: s, history: s.history, log: s.log.With("consumer", sub.name, "identity", sub.caller.Identity),
		out: sender{stream: stream, consumer: c, clock: s.clock}, sharing: sharedKey{sub.encoding, sub.view.Hash()},
	}
	// One channel to wait on for both ends that a stream can have.
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	err = w.run(ctx)
	w.log.Info("consumer is gone", "revision", c.at.Load(), "why", err)
	return err
}

// run is the life of a stream.
func (w *watch) run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	clock, interval := w.server.clock, w.subscription.heartbeat
	heartbeat := clock.NewTimer(interval)
	defer heartbeat.Stop()
	for {
		sent, more, err := w.follow()
		if err != nil {
			return err
		}
		if sent {
			// A closing server must not wait for a consumer that is always behind.
			if w.server.isClosing() {
				return goingDown()
			}
			continue
		}
		select {
		case <-more:
		case <-heartbeat.C():
			// Reset only here: a stream that is busy doesn't touch its timer.
			if quiet := clock.Since(w.out.last); quiet < interval {
				heartbeat.Reset(interval - quiet)
				continue
			}
			if err := w.beat(); err != nil {
				return err
			}
			heartbeat.Reset(interval)
		case <-ctx.Done():
			if w.server.isClosing() {
				return goingDown()
			}
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func goingDown() error {
	return status.Error(codes.Unavailable, "podconfigd is going down; subscribe again and resume")
}

// begin takes the consumer from where it says it is to the current state, and says so.
func (w *watch) begin() error {
	st := w.history.State()
	// It may be much, and is needed once.
	known := w.known
	w.known = nil
	how := metrics.Fresh
	switch at, ok := w.placed(st); {
	case ok:
		// Whatever it takes from here, exact history or a coalesced catch-up, follow finds out.
		// What is published meanwhile can wait: a consumer that is always behind must get to its synced, too.
		how, w.pending, w.told = metrics.Exact, catchup.Undecided(st, at, known, w.view), at
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
	err := w.out.message(&podconfigv1.WatchPodUpdatesResponse{
		Event:  &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: w.readiness()}},
		Cursor: cursor,
	})
	w.arrived(cursor)
	w.synced.Store(true)
	return err
}

// placed tells whether the consumer's cursor belongs to this history and view, and at which revision it is.
func (w *watch) placed(st *history.State) (uint64, bool) {
	c := w.resume
	if c == nil || !w.history.Knows(c.GetInstanceId()) || c.GetView() != w.view.Hash() || c.GetRevision() > st.Number {
		return 0, false
	}
	if failpoint.Active(failpoint.ResendCovered) && c.GetRevision() > 0 {
		return c.GetRevision() - 1, true
	}
	return c.GetRevision(), true
}

// follow sends what has been published since the consumer's revision: the next one, or a catch-up if that is no longer kept.
// If there is nothing it tells so, with a channel that is closed when there is.
func (w *watch) follow() (sent bool, more <-chan struct{}, err error) {
	at := w.at.Load()
	rev, kept, more := w.history.Next(at)
	switch {
	case !kept:
		return true, nil, w.fellBehind(at)
	case rev == nil:
		return false, more, nil
	}
	if failpoint.Active(failpoint.SkipRevision) && rev.Number%7 == 0 {
		w.at.Store(rev.Number)
		return true, nil, nil
	}
	if failpoint.Active(failpoint.ReorderRevisions) && rev.Number%5 == 0 {
		if next, _, _ := w.history.Next(rev.Number); next != nil {
			if err := w.deliver(next); err != nil {
				return false, nil, err
			}
		}
	}
	if err := w.deliver(rev); err != nil {
		return false, nil, err
	}
	w.at.Store(rev.Number)
	return true, nil, nil
}

// fellBehind catches up a consumer that is at a revision after which not all are kept.
func (w *watch) fellBehind(at uint64) error {
	st := w.history.State()
	how := metrics.Coalesced
	changes, ok := catchup.Coalesced(st, at, w.view)
	if ok {
		changes = w.pending.Settle(changes, st.Number, func() *history.State { return st })
	} else {
		how, changes = metrics.Set, catchup.Set(st, at, w.view)
		// The consumer itself removes what the SET doesn't have, when the source is ready: nothing is open any more.
		w.pending = nil
	}
	w.behind = how
	w.server.metrics.Catchups.WithLabelValues(how).Inc()
	if w.synced.Load() {
		w.server.metrics.Parked.WithLabelValues(metrics.FellBehind).Inc()
	}
	w.log.Info("consumer fell behind the history and is caught up", "from", at, "revision", st.Number, "how", how)
	return w.jump(st, changes)
}

// jump takes the consumer to the given state at once. From a SET it can't tell what to remove before synced tells it which
// sources are ready: so they are one unit, or a stream that breaks in between would leave it with a cursor past the removals.
func (w *watch) jump(st *history.State, changes []revision.Change) error {
	u := wire.Unit{Number: st.Number, Changes: changes, Sources: st.Sources}
	isSet := func(c revision.Change) bool { return c.Op == revision.SET }
	if w.synced.Load() || !slices.ContainsFunc(changes, isSet) {
		u.Cursor = w.cursorAt(st.Instance, st.Number)
	}
	if err := w.out.unit(u); err != nil {
		return err
	}
	if len(changes) > 0 && u.Cursor != nil {
		w.arrived(u.Cursor)
	}
	w.at.Store(st.Number)
	return nil
}

// deliver sends one revision.
func (w *watch) deliver(rev *revision.Revision) error {
	span := w.startSpan(rev)
	defer span.End()
	if w.view.Everything() && w.pending.Empty() {
		return w.deliverShared(rev)
	}
	at := func() *history.State {
		if st, ok := w.history.StateAt(rev.Number); ok {
			return st
		}
		// It has left the history in this moment. The current state is as true, only later: what comes between is told again.
		return w.history.State()
	}
	changes := w.view.Changes(rev, at)
	changes = w.pending.Settle(changes, rev.Number, at)
	if len(changes) == 0 {
		return nil
	}
	u := w.unitOf(rev)
	u.Changes = changes
	if err := w.out.unit(u); err != nil {
		return err
	}
	w.delivered(rev, u.Cursor)
	return nil
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
		Number: rev.Number, Changes: rev.Changes, Observed: rev.Observed, Trace: rev.Trace, Sources: w.history.Sources(),
		Cursor: w.cursorAt(rev.Instance, rev.Number),
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

// beat sends a heartbeat. It bears a cursor if revisions have gone by that held nothing for this view: so a consumer's cursor
// doesn't grow old while nothing happens to it.
func (w *watch) beat() error {
	at, life := w.at.Load(), w.history.Life()
	m := &podconfigv1.Heartbeat{Revision: at, Sources: w.readiness(), StoreState: podconfigv1.StoreState_STORE_STATE_DURABLE}
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
	var out []*podconfigv1.SourceReadiness
	for _, src := range w.view.Sources(w.history.Sources()) {
		out = append(out, &podconfigv1.SourceReadiness{Name: src.Name, Ready: src.ReadyAt(w.at.Load())})
	}
	return out
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
