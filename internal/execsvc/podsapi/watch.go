package podsapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/board"
)

// watch is one stream of WatchPods.
type watch struct {
	stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]
	// told is what the watcher was told last of each pod that it knows.
	told map[types.UID]told
}

// told is a pod as a watcher knows it. The board keeps what is equal as it is, so that pointers tell whether something changed.
type told struct {
	object *v1.Pod
	status *v1.PodStatus
}

// WatchPods is part of v1alpha1.Pods.
func (s *Server) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	w := watch{stream: stream, told: map[types.UID]told{}}
	var at board.Position
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

// lost are the pods that the watcher knows and that aren't among all that there are.
func (w watch) lost(all []board.Change) []board.Change {
	there := map[types.UID]bool{}
	for _, c := range all {
		there[c.Pod.UID] = true
	}
	var out []board.Change
	for uid := range w.told {
		if !there[uid] {
			out = append(out, board.Change{Pod: board.Pod{UID: uid}, Removed: true})
		}
	}
	return out
}

// send tells the watcher of a change, if it is one of what is served here.
func (w watch) send(c board.Change) error {
	uid, now := c.Pod.UID, told{c.Pod.Object, c.Pod.Status}
	before, known := w.told[uid]
	event := &podsv1alpha1.WatchPodsEvent{}
	var err error
	switch {
	case now.object == nil && !known, known && now == before:
		return nil
	case now.object == nil:
		delete(w.told, uid)
		event.Type = podsv1alpha1.EventType_DELETED
		event.Pod, err = reference(before.object)
	default:
		w.told[uid] = now
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
