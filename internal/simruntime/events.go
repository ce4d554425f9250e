package simruntime

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventBuffer is how many events wait for one subscriber. containerd's is of this size too, and like it we drop what doesn't
// fit: events may be lost, so a relist must find what they told.
const eventBuffer = 1000

// emit tells all subscribers that the container or sandbox id, of sandbox b, has changed. b is nil if the sandbox is gone. It
// needs the lock.
func (s *Server) emit(id string, b *sandbox, kind runtimeapi.ContainerEventType) {
	if len(s.subscribers) == 0 {
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
	for subscriber := range s.subscribers {
		select {
		case subscriber <- event:
		default:
		}
	}
}

// GetContainerEvents streams what happens from now on. It sends its header once it listens, so that a client which waits for
// the header misses nothing after it.
func (s *runtimeService) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if s.cfg.NoEvents {
		return status.Error(codes.Unimplemented, "unknown method GetContainerEvents for service runtime.v1.RuntimeService")
	}
	events := make(chan *runtimeapi.ContainerEventResponse, eventBuffer)
	s.mu.Lock()
	s.subscribers[events] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, events)
	}()
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return ended(stream.Context().Err())
		case event := <-events:
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}
