package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"

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
	// reader reads the part of the history that concerns the view.
	reader *history.Reader
	log    *slog.Logger
	out    sender
	// sharing is the stream's sharedKey.
	sharing any
	// everything is the view's Everything.
	everything bool
	// sentCursor is the revision of the last cursor that was sent.
	sentCursor uint64
	// sources are the sources at the consumer's revision, or at a later one with the same configured sources. Nil:
	// they aren't known.
	sources history.Sources
	// said is what was sent last beside the revisions.
	said said
	// behind is how the consumer was last caught up after its revision had left the history.
	behind string
	// prepared is set once prepare has sent the readiness.
	prepared bool
	kept     *kept
	// passed is set if the last unit was sent after its revision had left the history: the consumer holds a mixture
	// of that revision and later ones, and is caught up before anything else.
	passed bool
	// pending are known pods of sources that hadn't been read when the consumer subscribed.
	pending *catchup.Pending
}

// WatchPodUpdates is part of podconfig.v1.PodConfigService.
func (s *Server) WatchPodUpdates(
	req *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	caller, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	slot := s.work.slotFor(stream.Context(), caller)
	if err := slot.hold(); err != nil {
		return err
	}
	defer slot.release()
	sub, err := newSubscription(stream.Context(), req)
	if err != nil {
		return err
	}
	held, err := keep(s.kept, sub, sub.knownSize)
	if err != nil {
		return err
	}
	defer held.end()
	// The streams of root and podconfigd's own user are woken for a revision before the others.
	reader := s.history.NewReader(history.ReaderConfig{Nodes: sub.view.Nodes(), Later: !isOwner(sub.caller)})
	defer reader.Close()
	c, err := s.consumers.add(sub, reader)
	if err != nil {
		return err
	}
	defer s.consumers.remove(c)
	if sub.view.Redacted() {
		defer s.history.Inspect()()
	}
	w := &watch{
		consumer: c, server: s, kept: held, history: s.history, reader: reader, log: s.lines.logger(sub.caller, sub.name),
		out: sender{stream: stream, consumer: c, slot: slot, clock: s.clock}, sharing: sharedKey{sub.encoding, sub.view.Hash()},
		everything: sub.view.Everything(),
	}
	err = w.run(stream.Context())
	w.log.Info("consumer is gone", "revision", c.at.Load(), "error", err)
	return err
}

// run serves the stream until it ends. It waits for one channel, that of the reader, as this costs least for each
// revision: the end of the stream, the closing of the server and a heartbeat that is due wake the reader.
func (w *watch) run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	clock, interval := w.server.clock, w.subscription.heartbeat
	var ended, fired atomic.Bool
	wake := func(why *atomic.Bool) func() {
		return func() {
			why.Store(true)
			w.reader.Wake()
		}
	}
	defer context.AfterFunc(ctx, wake(&ended))()
	defer context.AfterFunc(w.server.closing, wake(&ended))()
	heartbeat := delayed(clock).AfterFunc(interval, wake(&fired))
	defer func() { heartbeat.Stop() }()
	for {
		if err := w.out.slot.hold(); err != nil {
			return err
		}
		if w.pending.Empty() {
			w.pending = nil
			w.kept.settled()
		}
		sent, more, err := w.follow()
		switch {
		case err != nil:
			return err
		case sent && w.server.isClosing():
			// A closing server must not wait for a consumer that is always behind.
			return goingDown()
		case sent && w.out.last.Sub(w.said.at) >= interval, !sent && (w.outdated() || clock.Since(w.said.at) >= interval):
			// A heartbeat that is due, or has changes to report, doesn't wait until the stream is quiet.
			if err := w.beat(); err != nil {
				return err
			}
		}
		if sent {
			continue
		}
		// The heartbeat was sent above, or with a revision, after follow has taken the consumer past the revisions that
		// don't concern its view.
		if fired.Swap(false) {
			heartbeat = delayed(clock).AfterFunc(interval-clock.Since(w.said.at), wake(&fired))
		}
		w.out.slot.release()
		if ended.Load() {
			if w.server.isClosing() {
				return goingDown()
			}
			return statusOf(ctx.Err())
		}
		<-more
	}
}

func goingDown() error {
	return unavailable("podconfigd is going down; subscribe again and resume")
}

// follow sends the next revision, or a catch-up if that is no longer kept. If there is none, more gets a
// value, or is closed, when there may be one.
func (w *watch) follow() (sent bool, more <-chan struct{}, err error) {
	at := w.at.Load()
	rev, passed, kept, more := w.reader.Next(at)
	if !kept || w.passed {
		return true, nil, w.fellBehind(at)
	}
	// Revisions that don't concern the view are skipped.
	at = passed
	w.at.Store(at)
	if rev == nil {
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
	// While the consumer doesn't read, the revision must not stay in memory for it.
	number, before, after := rev.Number, w.sources, w.sources.After(rev)
	switch err := w.deliver(rev); {
	case errors.Is(err, errLeft):
		return true, nil, w.fellBehind(at)
	case err != nil:
		return false, nil, err
	}
	w.at.Store(number)
	w.sources = after
	return true, nil, w.configured(before)
}

// configured sends a heartbeat with the configured sources if they changed since before, and the consumer was sent
// those.
func (w *watch) configured(before history.Sources) error {
	same := func(a, b history.Source) bool { return a.Name == b.Name && a.Added == b.Added }
	if !w.synced.Load() && !w.prepared || slices.EqualFunc(w.view.Sources(before), w.view.Sources(w.sources), same) {
		return nil
	}
	return w.beat()
}

// fellBehind catches up a consumer whose next revisions are no longer all kept.
func (w *watch) fellBehind(at uint64) error {
	w.passed = false
	st := w.reader.StateSince(at)
	how := metrics.Coalesced
	changes, ok := catchup.Coalesced(st, at, w.view)
	if ok {
		w.pending.Configure(st.Sources)
		changes = w.pending.Settle(changes, st.Number, func() *history.State { return st })
	} else {
		how, changes = metrics.Set, catchup.Set(st, at, w.view)
		// The consumer itself removes what the SET lacks, once the source is ready: nothing is open any more.
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

// jump takes the consumer to the given state at once. Before synced a consumer doesn't know which sources are ready,
// and so not what a SET removes. Both then form one unit: if the stream broke in between, the consumer's cursor would
// be past the removals.
func (w *watch) jump(st *history.State, changes []revision.Change) error {
	u := wire.Unit{Number: st.Number, Changes: changes, Sources: st.Sources, Before: w.sources}
	isSet := func(c revision.Change) bool { return c.Op == revision.SET }
	if w.synced.Load() || !slices.ContainsFunc(changes, isSet) {
		u.Cursor = w.cursorAt(st.Instance.ID, st.Number)
	}
	// The code below must not use st or changes: while the consumer doesn't read, they must not stay in memory for
	// it.
	sources := st.Sources
	if err := w.unit(&u); err != nil {
		return err
	}
	w.at.Store(u.Number)
	w.sources = sources
	return nil
}
