package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Watch calls changed for each event of a pod of this agent, until the stream breaks or ctx ends. It then returns the
// reason: observed.ErrNoEvents if the runtime has no events. reported has the pod's UID, and the IDs and states of the
// sandbox and the containers in the event; none for a removal. changed gets nil once the runtime streams, and for an
// event that doesn't name its pod. It isn't called after Watch has returned.
//
// A runtime streams once it has sent its header. containerd sends the header with its first event, and only then is it
// reliable: in containerd 1.7 each event has a single reader, which for a while may be an earlier reader that is gone.
func (r *Runtime) Watch(ctx context.Context, changed func(reported *observed.Pod)) error {
	// The client ignores ctx while it hands over an event: the events must be received until it has returned.
	events := make(chan *runtimeapi.ContainerEventResponse)
	listening := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		// The client logs the errors that it returns.
		quiet := klog.NewContext(ctx, logr.Discard())
		ended <- r.cfg.Runtime.GetContainerEvents(quiet, events, func(stream runtimeapi.RuntimeService_GetContainerEventsClient) {
			// A stream that didn't open has no header.
			if header, err := stream.Header(); err == nil && header != nil {
				r.metrics.eventStreams.Inc()
				listening <- struct{}{}
			}
		})
	}()
	for {
		select {
		case <-listening:
			changed(nil)
		case e := <-events:
			r.countEvent(e)
			switch uid, mine := r.podOf(e); {
			case mine && uid == "":
				changed(nil)
			case mine:
				changed(reportedPod(uid, e))
			}
		case err := <-ended:
			if ctx.Err() == nil {
				r.metrics.eventErrors.Inc()
			}
			return watchError(ctx, err)
		}
	}
}

func watchError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Code(err) == codes.Unimplemented:
		return observed.ErrNoEvents
	case err == nil:
		return errors.New("the runtime's events have ended")
	}
	return fmt.Errorf("watch the runtime's events: %w", err)
}

// podOf returns the UID of the event's pod, or "" if the event doesn't name it: then it may be one of this agent's.
// mine is false for a pod of another agent.
func (r *Runtime) podOf(e *runtimeapi.ContainerEventResponse) (uid types.UID, mine bool) {
	if s := e.GetPodSandboxStatus(); s != nil {
		return types.UID(s.GetLabels()[podmeta.PodUIDLabel]), r.mine(s.GetLabels(), s.GetAnnotations())
	}
	for _, c := range e.GetContainersStatuses() {
		return types.UID(c.GetLabels()[podmeta.PodUIDLabel]), r.mine(c.GetLabels(), c.GetAnnotations())
	}
	return "", true
}

// reportedPod returns the pod as an event reports it: the states in the event, and the event's own subject, which may
// be newer than the states.
func reportedPod(uid types.UID, e *runtimeapi.ContainerEventResponse) *observed.Pod {
	pod := &observed.Pod{UID: uid}
	var reached observed.State
	switch e.GetContainerEventType() {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		reached = observed.Created
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		reached = observed.Running
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		reached = observed.Exited
	default:
		return pod
	}
	if s := e.GetPodSandboxStatus(); s != nil {
		ready := s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		pod.Sandboxes = append(pod.Sandboxes, observed.Sandbox{ID: s.GetId(), Ready: ready})
	}
	for _, c := range e.GetContainersStatuses() {
		pod.Containers = append(pod.Containers, observed.Container{ID: c.GetId(), State: observed.StateOf(c.GetState())})
	}
	// The event's subject may be a sandbox. It is added as a container.
	pod.Containers = append(pod.Containers, observed.Container{ID: e.GetContainerId(), State: reached})
	return pod
}
