package simruntime

import (
	"math/rand/v2"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventBuffer is the maximum number of unread events. As in containerd 1.7, further ones are dropped. A relist must
// find the changes of lost events.
const eventBuffer = 1000

// emit sends an event for the container or sandbox id, which belongs to sandbox b. If the sandbox was removed, b is
// nil, and the event has no status of its pod, as in containerd. The caller holds the lock.
func (s *Server) emit(id string, b *sandbox, kind runtimeapi.ContainerEventType) {
	if len(s.events) == cap(s.events) {
		return
	}
	event := &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind, CreatedAt: s.clock.Now().UnixNano(),
	}
	if b != nil {
		event.PodSandboxStatus = b.status()
		for _, c := range b.containers {
			event.ContainersStatuses = append(event.ContainersStatuses, s.containerStatus(c))
		}
	}
	sent := []*runtimeapi.ContainerEventResponse{event}
	if s.cfg.EventFault != nil {
		sent = s.cfg.EventFault(event)
	}
	for _, event := range sent {
		select {
		case s.events <- event:
		default:
		}
	}
}

// GetContainerEvents streams the events since the last one that was read. As in containerd 1.7, events without a
// reader wait for the next reader, several readers share the events, and nothing is sent before the first event, not
// even a header.
func (s *runtimeService) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if s.cfg.NoEvents {
		return status.Error(codes.Unimplemented, "unknown method GetContainerEvents for service runtime.v1.RuntimeService")
	}
	s.mu.Lock()
	broken := s.eventsBroken
	s.mu.Unlock()
	for {
		select {
		case <-stream.Context().Done():
			return ended(stream.Context().Err())
		case <-broken:
			return status.Error(codes.Unavailable, "error reading from server: EOF")
		case event := <-s.events:
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

// BreakEvents ends all open streams of events, as if their connections had failed. New ones can be opened at once.
func (s *Server) BreakEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.eventsBroken)
	s.eventsBroken = make(chan struct{})
}

// UnreliableEvents returns a Config.EventFault. Of four events, on average, one is lost, one is sent twice, one is
// delayed until after a later one, and one is sent normally.
func UnreliableEvents(random *rand.Rand) func(*runtimeapi.ContainerEventResponse) []*runtimeapi.ContainerEventResponse {
	var held []*runtimeapi.ContainerEventResponse
	return func(event *runtimeapi.ContainerEventResponse) []*runtimeapi.ContainerEventResponse {
		switch random.IntN(4) {
		case 0:
			return nil
		case 1:
			return []*runtimeapi.ContainerEventResponse{event, event}
		case 2:
			held = append(held, event)
			return nil
		default:
			sent := append([]*runtimeapi.ContainerEventResponse{event}, held...)
			held = nil
			return sent
		}
	}
}
