package simruntime

import (
	"math/rand/v2"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventBuffer is how many events wait to be read. containerd 1.7's is of this size too, and like it we drop what doesn't fit:
// events may be lost, so a relist must find what they told.
const eventBuffer = 1000

// emit tells that the container or sandbox id, of sandbox b, has changed. b is nil if the sandbox is gone: then the event tells
// nothing of its pod, as containerd's doesn't. It needs the lock.
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
	told := []*runtimeapi.ContainerEventResponse{event}
	if s.cfg.EventFault != nil {
		told = s.cfg.EventFault(event)
	}
	for _, event := range told {
		select {
		case s.events <- event:
		default:
		}
	}
}

// GetContainerEvents streams what happened since the last event that somebody read. It is containerd 1.7's: what happens while
// nobody reads waits for the next who does, of several readers each gets a part, and nothing is sent, no header either, before
// the first event.
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

// BreakEvents ends all streams of events that are open, as if their connections had been lost. New ones can be opened at once.
func (s *Server) BreakEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.eventsBroken)
	s.eventsBroken = make(chan struct{})
}

// UnreliableEvents makes a Config.EventFault by which of each four events, on average, one is lost, one is told twice, one is
// held back until after a later one, and one is told as it should be.
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
			told := append([]*runtimeapi.ContainerEventResponse{event}, held...)
			held = nil
			return told
		}
	}
}
