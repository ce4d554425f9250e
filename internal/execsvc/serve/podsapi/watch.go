package podsapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// watch is one stream of WatchPods.
type watch struct {
	stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]
	// sent is the last state of each pod that the watcher was sent.
	sent map[types.UID]sent
}

// sent is a pod as the watcher has it. The board keeps the pointers of equal values, so that comparing pointers
// shows changes.
type sent struct {
	object *v1.Pod
	status *v1.PodStatus
}

// WatchPods is part of v1alpha1.Pods.
func (s *Server) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) (err error) {
	defer s.metrics.count(s.metrics.watches, &err)
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	w := watch{stream: stream, sent: map[types.UID]sent{}}
	var at podview.Position
	for synced := false; s.closing.Err() == nil && ctx.Err() == nil; {
		changes, now, more, resumed := s.board.Since(at)
		if !resumed {
			changes = append(changes, w.lost(changes)...)
		}
		for _, c := range changes {
			if err := w.send(c); err != nil {
				return err
			}
		}
		if !synced {
			if err := stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE}); err != nil {
				return err
			}
		}
		at, synced = now, true
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
	if s.closing.Err() != nil {
		return status.Error(codes.Unavailable, "podexecd is going down; watch again")
	}
	return status.FromContextError(ctx.Err()).Err()
}

// lost returns the pods that the watcher has and that no longer exist.
func (w watch) lost(all []podview.Change) []podview.Change {
	there := map[types.UID]bool{}
	for _, c := range all {
		there[c.Pod.UID] = true
	}
	var out []podview.Change
	for uid := range w.sent {
		if !there[uid] {
			out = append(out, podview.Change{Pod: podview.Pod{UID: uid}, Removed: true})
		}
	}
	return out
}

// send sends a change, if its pod is served here.
func (w watch) send(c podview.Change) error {
	uid, now := c.Pod.UID, sent{c.Pod.Object, c.Pod.Status}
	before, known := w.sent[uid]
	event := &podsv1alpha1.WatchPodsEvent{}
	var err error
	switch {
	case now.object == nil && !known, known && now == before:
		return nil
	case now.object == nil:
		delete(w.sent, uid)
		event.Type = podsv1alpha1.EventType_DELETED
		event.Pod, err = reference(before.object)
	default:
		w.sent[uid] = now
		event.Type = podsv1alpha1.EventType_MODIFIED
		if !known {
			event.Type = podsv1alpha1.EventType_ADDED
		}
		event.Pod, err = encode(c.Pod)
	}
	if err != nil {
		return err
	}
	return w.stream.Send(event)
}
