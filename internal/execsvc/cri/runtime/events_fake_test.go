package runtime

import (
	"context"

	"google.golang.org/grpc/metadata"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// eventRuntime sends the events that it gets, and then ends the stream as the test requests. The header comes first, unless
// late is set: then it comes with the first event.
type eventRuntime struct {
	internalapi.RuntimeService
	late   bool
	events chan *runtimeapi.ContainerEventResponse
	ends   chan error
}

func newEventRuntime(late bool) *eventRuntime {
	return &eventRuntime{late: late, events: make(chan *runtimeapi.ContainerEventResponse), ends: make(chan error, 1)}
}

func (r *eventRuntime) GetContainerEvents(ctx context.Context, to chan *runtimeapi.ContainerEventResponse,
	established func(runtimeapi.RuntimeService_GetContainerEventsClient),
) error {
	var first []*runtimeapi.ContainerEventResponse
	if r.late {
		select {
		case e := <-r.events:
			first = append(first, e)
		case err := <-r.ends:
			established(eventStream{})
			return err
		}
	}
	established(eventStream{header: metadata.MD{}})
	for _, e := range first {
		to <- e
	}
	for {
		select {
		case e := <-r.events:
			to <- e
		case err := <-r.ends:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// eventStream is only asked for its header: nil if the stream couldn't be begun.
type eventStream struct {
	runtimeapi.RuntimeService_GetContainerEventsClient
	header metadata.MD
}

func (s eventStream) Header() (metadata.MD, error) { return s.header, nil }

func event(uid, agent string) *runtimeapi.ContainerEventResponse {
	return &runtimeapi.ContainerEventResponse{PodSandboxStatus: &runtimeapi.PodSandboxStatus{
		Labels: map[string]string{podmeta.PodUIDLabel: uid}, Annotations: map[string]string{podmeta.AgentAnnotation: agent},
	}}
}
