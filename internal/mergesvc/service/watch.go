package service

import (
	"log/slog"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// batch is how many revisions a stream takes from the history at a time: what a consumer that doesn't read keeps alive.
const batch = 32

// watch is one stream.
type watch struct {
	*subscription
	history *history.History
	log     *slog.Logger
	out     sender
	// synced is set once the consumer has been told so.
	synced bool
	// at is the revision that the consumer is at.
	at uint64
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
	w := &watch{
		subscription: sub, history: s.history, log: s.log.With("consumer", sub.consumer),
		out: sender{stream: stream, format: sub.format, instance: s.history.Instance(), view: sub.view},
	}
	err = s.run(w)
	w.log.Info("consumer is gone", "revision", w.at, "why", err)
	return err
}

// run is the life of a stream.
func (s *Server) run(w *watch) error {
	stream := w.out.stream
	if err := w.begin(); err != nil {
		return err
	}
	heartbeat := s.clock.NewTimer(w.subscription.heartbeat)
	defer heartbeat.Stop()
	for {
		sent, more, err := w.follow()
		if err != nil {
			return err
		}
		if sent {
			heartbeat.Reset(w.subscription.heartbeat)
			// A closing server must not wait for a consumer that is always behind.
			select {
			case <-s.closing:
				return goingDown()
			default:
				continue
			}
		}
		select {
		case <-more:
		case <-heartbeat.C():
			if err := w.heartbeatNow(); err != nil {
				return err
			}
			heartbeat.Reset(w.subscription.heartbeat)
		case <-s.closing:
			return goingDown()
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func goingDown() error {
	return status.Error(codes.Unavailable, "podconfigd is going down; subscribe again and resume")
}

// begin takes the consumer from where it says it is to the current state, and says so.
func (w *watch) begin() error {
	st := w.history.State()
	how := "fresh"
	switch at, ok := w.placed(st); {
	case ok:
		// Whatever it takes from here, exact history or a coalesced catch-up, follow finds out.
		// What is published meanwhile can wait: a consumer that is always behind must get to its synced, too.
		how, w.at, w.pending = "resumed", at, catchup.Undecided(st, at, w.known)
		for w.at < st.Number {
			if _, _, err := w.follow(); err != nil {
				return err
			}
		}
		st = w.history.State()
	case len(w.known) > 0:
		how = "difference"
		var changes []revision.Change
		changes, w.pending = catchup.FromKnown(st, w.known)
		w.logRemovals(changes)
		if err := w.jump(st, changes); err != nil {
			return err
		}
	case w.resume != nil:
		how = "set"
		if err := w.jump(st, catchup.Set(st, st.Number)); err != nil {
			return err
		}
	default:
		if err := w.jump(st, catchup.Fresh(st)); err != nil {
			return err
		}
	}
	w.log.Info("consumer is synced", "how", how, "revision", w.at, "pods", len(st.Pods))
	w.synced = true
	return w.out.synced(st.Sources, w.at)
}

// placed tells whether the consumer's cursor belongs to this history and view, and at which revision it is.
func (w *watch) placed(st *history.State) (uint64, bool) {
	c := w.resume
	if c == nil || c.GetInstanceId() != st.Instance || c.GetView() != w.view || c.GetRevision() > st.Number {
		return 0, false
	}
	return c.GetRevision(), true
}

// follow sends what has been published since w.at: some revisions, or a catch-up if those are no longer kept. If there is
// nothing it tells so, with a channel that is closed when there is.
func (w *watch) follow() (sent bool, more <-chan struct{}, err error) {
	revs, kept, more := w.history.After(w.at, batch)
	if !kept {
		st := w.history.State()
		changes, ok := catchup.Coalesced(st, w.at)
		if !ok {
			changes = catchup.Set(st, w.at)
		}
		changes = w.pending.Settle(changes, st.Number, st.Sources)
		w.log.Info("consumer fell behind the history and is caught up", "from", w.at, "revision", st.Number, "coalesced", ok)
		return true, nil, w.jump(st, changes)
	}
	for _, rev := range revs {
		sources := w.history.Sources()
		changes := w.pending.Settle(rev.Changes, rev.Number, sources)
		err := w.out.revision(unit{number: rev.Number, changes: changes, observed: rev.Observed, sources: sources})
		if err != nil {
			return false, nil, err
		}
		w.at = rev.Number
	}
	return len(revs) > 0, more, nil
}

// jump takes the consumer to the given state at once. From a SET it can't tell what to remove before synced tells it which
// sources are ready: so they are one unit, or a stream that breaks in between would leave it with a cursor past the removals.
func (w *watch) jump(st *history.State, changes []revision.Change) error {
	isSet := func(c revision.Change) bool { return c.Op == revision.SET }
	u := unit{number: st.Number, changes: changes, sources: st.Sources}
	u.open = !w.synced && slices.ContainsFunc(changes, isSet)
	if err := w.out.revision(u); err != nil {
		return err
	}
	w.at = st.Number
	return nil
}

// logRemovals tells of the pods that only this consumer had: no revision's log line names them.
func (w *watch) logRemovals(changes []revision.Change) {
	for _, c := range changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				w.log.Info("consumer holds a pod that is gone and is told to remove it", "pod", p.String(), "uid", p.UID(), "source", p.Source)
			}
		}
	}
}

func (w *watch) heartbeatNow() error {
	return w.out.heartbeat(w.history.Sources(), w.at)
}
