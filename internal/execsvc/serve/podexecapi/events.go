package podexecapi

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// WatchEvents is part of podexec.v1.PodExecService.
func (s *Server) WatchEvents(req *podexecv1.WatchEventsRequest, stream grpc.ServerStreamingServer[podexecv1.WatchEventsResponse]) error {
	v, err := s.view(stream.Context(), req.GetFilter())
	if err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	for at := uint64(0); ctx.Err() == nil; {
		happened, now, more := s.cfg.Events.After(at)
		for _, e := range happened {
			if !v.sees(e.Source, e.Namespace, e.Name) {
				continue
			}
			if err := stream.Send(&podexecv1.WatchEventsResponse{Event: v.event(e)}); err != nil {
				return err
			}
		}
		if !req.GetFollow() {
			return nil
		}
		at = now
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
	return s.ended(ctx)
}

// event returns the event with what the caller may see.
func (v view) event(e events.Event) *podexecv1.PodEvent {
	return &podexecv1.PodEvent{
		Ref:       &podconfigv1.PodRef{Uid: string(e.UID), Namespace: e.Namespace, Name: e.Name},
		Container: e.Container, Type: e.Type, Reason: e.Reason, Message: valid(v.audience.Words(e.Message)), Count: e.Count,
		FirstTime: timestamppb.New(e.First), LastTime: timestamppb.New(e.Last),
	}
}
