package service

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// fragment is how many bytes of pods a message holds at most, unless one pod alone is larger.
const fragment = 1 << 20

// unit is what a consumer applies as a whole: one revision, or one catch-up.
type unit struct {
	number  uint64
	changes []revision.Change
	// observed is zero in a catch-up.
	observed time.Time
	// sources are those at number or at a later revision.
	sources history.Sources
	// open leaves the cursor to the synced that follows at once.
	open bool
}

// sender puts units on the wire.
type sender struct {
	stream         grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]
	format         podconfigv1.PodFormat
	instance, view string
}

// revision sends a unit, in as many messages as it takes. The last one bears the cursor, unless the unit is open; a unit without
// changes sends nothing.
func (s *sender) revision(u unit) error {
	var last *podconfigv1.WatchPodUpdatesResponse
	emit := func(update *podconfigv1.PodUpdate) error {
		if last != nil {
			last.Continued = true
			if err := s.stream.Send(last); err != nil {
				return err
			}
		}
		last = &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: update}}
		return nil
	}
	for _, c := range u.changes {
		if err := s.change(u, c, emit); err != nil {
			return err
		}
	}
	if last == nil {
		return nil
	}
	if last.Continued = u.open; !u.open {
		last.Cursor = s.cursor(u.number)
	}
	return s.stream.Send(last)
}

// change hands emit the messages of one change: one, or more if the pods are too many for one.
func (s *sender) change(u unit, c revision.Change, emit func(*podconfigv1.PodUpdate) error) error {
	header := func() *podconfigv1.PodUpdate {
		m := &podconfigv1.PodUpdate{
			Op: podconfigv1.PodOperation(c.Op), Source: c.Source, SourceReady: u.sources.ReadyAt(c.Source, u.number),
		}
		if !u.observed.IsZero() {
			m.ObservedTime = timestamppb.New(u.observed)
		}
		return m
	}
	update, size := header(), 0
	for _, p := range c.Pods {
		m, n, err := message(p, c.Op, s.format)
		if err != nil {
			return err
		}
		if size > 0 && size+n > fragment {
			if err := emit(update); err != nil {
				return err
			}
			update, size = header(), 0
		}
		update.Pods, size = append(update.Pods, m), size+n
	}
	return emit(update)
}

func message(p *revision.Pod, op revision.Op, format podconfigv1.PodFormat) (*podconfigv1.Pod, int, error) {
	if op == revision.REMOVE {
		return p.Removed()
	}
	return p.Message(format)
}

func (s *sender) synced(sources history.Sources, number uint64) error {
	return s.stream.Send(&podconfigv1.WatchPodUpdatesResponse{
		Event:  &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: readiness(sources, number)}},
		Cursor: s.cursor(number),
	})
}

func (s *sender) heartbeat(sources history.Sources, number uint64) error {
	return s.stream.Send(&podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
			Revision: number, Sources: readiness(sources, number), StoreState: podconfigv1.StoreState_STORE_STATE_TEMPORARY,
		}},
	})
}

func (s *sender) cursor(number uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: s.instance, Revision: number, View: s.view}
}

func readiness(sources history.Sources, number uint64) []*podconfigv1.SourceReadiness {
	var out []*podconfigv1.SourceReadiness
	for _, src := range sources {
		out = append(out, &podconfigv1.SourceReadiness{Name: src.Name, Ready: src.ReadyAt(number)})
	}
	return out
}
