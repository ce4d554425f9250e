package service

import (
	"context"
	"errors"
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
	// everything is the view's Everything.
	everything bool
	// told is the revision of the last cursor that was sent.
	told uint64
	// sources are those of the consumer's revision, or of a later one before others are configured. Nil: nobody knows.
	sources history.Sources
	// said is what the consumer was told last beside the revisions.
	said said
	// behind is how it was caught up last, if what it had missed wasn't kept.
	behind string
	// prepared is set once prepare has told what it tells.
	prepared bool
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
	c, err := s.consumers.add(sub, s.history)
	if err != nil {
		return err
	}
	defer s.consumers.remove(c)
	w := &watch{
		consumer: c, server: s, history: s.history, log: s.log.With("consumer", sub.name, "identity", sub.caller.Identity),
		out: sender{stream: stream, consumer: c, clock: s.clock}, sharing: sharedKey{sub.encoding, sub.view.Hash()},
		everything: sub.view.Everything(),
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
		switch {
		case err != nil:
			return err
		case sent && w.server.isClosing():
			// A closing server must not wait for a consumer that is always behind.
			return goingDown()
		case sent && w.out.last.Sub(w.said.at) >= interval, !sent && w.news():
			// Neither does what the revisions don't tell wait until the stream is quiet.
			if err := w.beat(); err != nil {
				return err
			}
		}
		if sent {
			continue
		}
		select {
		case <-more:
		case <-heartbeat.C():
			// Reset only here: a heartbeat at another time doesn't touch the timer.
			if since := clock.Since(w.said.at); since < interval {
				heartbeat.Reset(interval - since)
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
		w.sources = w.sources.After(rev)
		return true, nil, nil
	}
	if failpoint.Active(failpoint.ReorderRevisions) && rev.Number%5 == 0 {
		if next, _, _ := w.history.Next(rev.Number); next != nil {
			if err := w.deliver(next); err != nil {
				return false, nil, err
			}
		}
	}
	switch err := w.deliver(rev); {
	case errors.Is(err, errLeft):
		return true, nil, w.fellBehind(at)
	case err != nil:
		return false, nil, err
	}
	w.at.Store(rev.Number)
	before := w.sources
	w.sources = before.After(rev)
	return true, nil, w.configured(before)
}

// configured tells the consumer which sources are configured now, if those that it may know of are others than before: it was told of
// these, and must not go by that any longer.
func (w *watch) configured(before history.Sources) error {
	same := func(a, b history.Source) bool { return a.Name == b.Name && a.Added == b.Added }
	if !w.synced.Load() && !w.prepared || slices.EqualFunc(w.view.Sources(before), w.view.Sources(w.sources), same) {
		return nil
	}
	return w.beat()
}

// fellBehind catches up a consumer that is at a revision after which not all are kept.
func (w *watch) fellBehind(at uint64) error {
	st := w.history.State()
	how := metrics.Coalesced
	changes, ok := catchup.Coalesced(st, at, w.view)
	if ok {
		w.pending.Configure(st.Sources)
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
	before := w.sources
	if err := w.jump(st, changes); err != nil || !w.synced.Load() {
		return err
	}
	return w.configured(before)
}

// jump takes the consumer to the given state at once. From a SET it can't tell what to remove before synced tells it which
// sources are ready: so they are one unit, or a stream that breaks in between would leave it with a cursor past the removals.
func (w *watch) jump(st *history.State, changes []revision.Change) error {
	u := wire.Unit{Number: st.Number, Changes: changes, Sources: st.Sources, Before: w.sources}
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
	w.sources = st.Sources
	return nil
}

// errLeft is returned by deliver if the state at the revision is needed, and it has left the history in this moment: that of a later
// one must not be told under its cursor.
var errLeft = errors.New("the revision has left the history")
