package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
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
	// interval and scoped are the subscription's heartbeat, and whether the caller has a scope. Each delivery needs both,
	// and the subscription isn't in the processor's cache then.
	interval time.Duration
	scoped   bool
	// sharing is the unique.Handle of the stream's sharedKey.
	sharing any
	// shown is the view without what is held, and everything its Everything.
	shown      *view.View
	everything bool
	// held are the sources of which nothing is sent now, and positions what the consumer's cursor has.
	held      *held
	positions position.Positions
	// claimed are the positions in the consumer's request. Those of their sources are sent first.
	claimed position.Positions
	// resumed is the instance of the cursor from which the stream went on. Empty: it began with a catch-up.
	resumed string
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
	kept     kept
	// nodesSeen is the count of Server.nodes by which the sources were compared with the view's nodes.
	nodesSeen uint64
	// passed is set if the last unit was sent after its revision had left the history: the consumer holds a mixture
	// of that revision and later ones, and is caught up before anything else.
	passed bool
	// pending are known pods of sources that hadn't been read when the consumer subscribed.
	pending *catchup.Pending
	// inspected ends that the stream counts as an inspector's. Nil: it doesn't.
	inspected func()
	// heartbeat wakes the reader, after it has set fired. ended is set when the stream ends.
	heartbeat    clock.Timer
	fired, ended atomic.Bool
}

// WatchPodUpdates is part of podconfig.v1.PodConfigService. While a stream waits, the frames from here on stay on its
// stack: what they need only once stands in functions of its own, so that the stack fits in 8 KiB.
func (s *Server) WatchPodUpdates(
	req *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	w := &watch{server: s, history: s.history}
	defer w.close()
	if err := w.open(req, stream); err != nil {
		return err
	}
	err := w.run()
	w.gone(err)
	return err
}

// run serves the stream until it ends. It waits for one channel, that of the reader, as this costs least for each
// revision: the end of the stream, the closing of the server and a heartbeat that is due wake the reader.
func (w *watch) run() error {
	if err := w.begin(); err != nil {
		return err
	}
	defer w.listen()()
	for {
		more, err := w.advance()
		switch {
		case err != nil:
			return err
		case more == nil:
			continue
		case w.ended.Load() || w.server.isClosing():
			return w.reason()
		}
		<-more
	}
}

// listen has the reader woken by the heartbeat and the end of the stream, until stop is called. Server.Close wakes it,
// too.
func (w *watch) listen() (stop func()) {
	stopStream := context.AfterFunc(w.out.stream.Context(), func() {
		w.ended.Store(true)
		w.reader.Wake()
	})
	w.setHeartbeat(w.interval)
	return func() {
		stopStream()
		w.heartbeat.Stop()
	}
}

// setHeartbeat has the reader woken when a heartbeat is due.
func (w *watch) setHeartbeat(in time.Duration) {
	w.heartbeat = delayed(w.server.clock).AfterFunc(in, func() {
		w.fired.Store(true)
		w.reader.Wake()
	})
}

// reason returns what an ended stream returns.
func (w *watch) reason() error {
	if w.server.isClosing() {
		return goingDown()
	}
	return statusOf(w.out.stream.Context().Err())
}

// advance sends the next revision and a heartbeat that is due. If there is no revision, more gets a value when there
// may be one; else it is nil.
func (w *watch) advance() (more <-chan struct{}, err error) {
	if err := w.out.slot.hold(); err != nil {
		return nil, err
	}
	if w.pending.Empty() && w.held == nil {
		w.pending = nil
		w.kept.settled()
	}
	if err := w.checkValid(); err != nil {
		return nil, err
	}
	sent, more, err := w.follow()
	if err == nil && !sent && w.held != nil {
		sent, err = w.release()
	}
	interval := w.interval
	switch {
	case err != nil:
		return nil, err
	case sent && w.server.isClosing():
		// A closing server must not wait for a consumer that is always behind.
		return nil, goingDown()
	case sent && w.out.last.Sub(w.said.at) >= interval, !sent && (w.outdated() || w.server.clock.Since(w.said.at) >= interval):
		// A heartbeat that is due, or has changes to report, doesn't wait until the stream is quiet.
		if err := w.beat(); err != nil {
			return nil, err
		}
	}
	if sent {
		return nil, nil
	}
	// The heartbeat was sent above, or with a revision, after follow has taken the consumer past the revisions that
	// don't concern its view.
	if w.fired.Swap(false) {
		w.setHeartbeat(interval - w.server.clock.Since(w.said.at))
	}
	w.out.slot.release()
	return more, nil
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
	number, configures, before, after := rev.Number, rev.Sources != nil, w.sources, w.sources.After(rev)
	switch err := w.deliver(rev); {
	case errors.Is(err, errLeft):
		return true, nil, w.fellBehind(at)
	case err != nil:
		return false, nil, err
	}
	w.at.Store(number)
	w.sources = after
	if !configures {
		return true, nil, nil
	}
	return true, nil, w.configured(before)
}

// configured sends a heartbeat with the configured sources if they changed since before, and the consumer was sent
// those.
func (w *watch) configured(before history.Sources) error {
	same := func(a, b history.Source) bool { return a.Name == b.Name && a.Added == b.Added }
	if !w.synced.Load() && !w.prepared || slices.EqualFunc(w.shown.Listed(before), w.shown.Listed(w.sources), same) {
		return nil
	}
	return w.beat()
}

// fellBehind catches up a consumer whose next revisions are no longer all kept.
func (w *watch) fellBehind(at uint64) error {
	w.passed = false
	st := w.reader.StateSince(at)
	how := metrics.Coalesced
	changes, ok := catchup.Coalesced(st, at, w.shown)
	if ok {
		w.pending.Configure(st.Sources)
		changes = w.pending.Settle(changes, st.Number, func() *history.State { return st })
	} else {
		how, changes = metrics.Set, catchup.Set(st, at, w.shown)
		// The consumer itself removes what the SET lacks, once the source is ready: nothing is open any more. So what is
		// held has to come in a SET as well.
		w.pending = nil
		if w.held != nil {
			w.held.unsaid = true
		}
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
	if err := w.checkValid(); err != nil {
		return err
	}
	w.forget(st.Sources)
	u := wire.Unit{Number: st.Number, Changes: changes, Sources: st.Sources, Before: w.sources}
	isSet := func(c revision.Change) bool { return c.Op == revision.SET }
	if w.synced.Load() || !slices.ContainsFunc(changes, isSet) {
		u.Cursor = w.cursorAt(st.Instance.ID, st.Number, st.Positions)
	}
	// The code below must not use st or changes: while the consumer doesn't read, they must not stay in memory for
	// it.
	sources, positions := st.Sources, w.advanced(st.Positions)
	if w.synced.Load() {
		// Before, the cursor may come with synced: that of a SET does, and without changes nothing is sent.
		positions = positions.Plain()
	}
	if err := w.unit(&u); err != nil {
		return err
	}
	w.at.Store(u.Number)
	w.positions = positions
	w.sources = sources
	return nil
}
