package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

var (
	// errTooMuch: the upstream has more than the limits.
	errTooMuch = errors.New("it exceeds the limits")
	// errUnfinished: the upstream sends heartbeats, but doesn't complete a unit.
	errUnfinished = errors.New("it doesn't complete a unit")
)

// ration limits what one stream may send before it completes a unit, and how long that may take.
type ration struct {
	cfg   Config
	clock clock.PassiveClock
	// what names what is counted, and limit is how much of it may come at once.
	what         string
	limit        int
	count, bytes int
	// amid is set within a revision, and synced once the initial state is complete. since is when new data came last.
	amid, synced bool
	since        time.Time
}

func newRation(cfg Config, what string) *ration {
	// A revision may remove everything, and add as much.
	return &ration{cfg: cfg, clock: cfg.Clock, what: what, limit: 2 * cfg.MaxPods, since: cfg.Clock.Now()}
}

// message counts a message that isn't a heartbeat. last is set on one that completes a unit.
func (r *ration) message(count, bytes int, last, synced bool) error {
	r.count, r.bytes = r.count+count, r.bytes+bytes
	if err := r.cfg.tooMuch(r.what, r.count, r.limit, r.bytes); err != nil {
		return err
	}
	if r.amid, r.synced = !last, r.synced || synced; last {
		r.count, r.bytes = 0, 0
	}
	r.since = r.clock.Now()
	return nil
}

// heartbeat returns an error if the rest of a unit takes too long.
func (r *ration) heartbeat() error {
	if waits := r.clock.Since(r.since); (r.amid || !r.synced) && waits > r.cfg.Patience {
		return fmt.Errorf("%w: nothing but heartbeats for %v", errUnfinished, waits.Round(time.Second))
	}
	return nil
}

// streamed is a message of a stream of pods or of objects.
type streamed interface {
	proto.Message
	GetContinued() bool
	GetCursor() *podconfigv1.Cursor
	GetSynced() *podconfigv1.Synced
	GetHeartbeat() *podconfigv1.Heartbeat
}

// admit counts a message with so many pods or objects.
func (r *ration) admit(m streamed, items int) error {
	if m.GetHeartbeat() != nil && m.GetCursor() == nil {
		return r.heartbeat()
	}
	last := !m.GetContinued() && (m.GetCursor() != nil || m.GetSynced() != nil)
	return r.message(items, proto.Size(m), last, m.GetSynced() != nil)
}

// guarded is the service with a ration for each stream of pods: package stream collects all messages up to a
// revision's end.
type guarded struct {
	podconfigv1.PodConfigServiceClient
	cfg Config
}

// WatchPodUpdates is part of podconfig.v1.PodConfigService.
func (g guarded) WatchPodUpdates(
	ctx context.Context, req *podconfigv1.WatchPodUpdatesRequest, opts ...grpc.CallOption,
) (grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse], error) {
	messages, err := g.PodConfigServiceClient.WatchPodUpdates(ctx, req, opts...)
	if err != nil {
		return nil, err
	}
	return &guardedStream{messages, newRation(g.cfg, "pods")}, nil
}

type guardedStream struct {
	grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
	ration *ration
}

// Recv is part of grpc.ServerStreamingClient.
func (s *guardedStream) Recv() (*podconfigv1.WatchPodUpdatesResponse, error) {
	m, err := s.ServerStreamingClient.Recv()
	if err != nil {
		return nil, err
	}
	if err := s.ration.admit(m, len(m.GetUpdate().GetPods())); err != nil {
		return nil, err
	}
	return m, nil
}
