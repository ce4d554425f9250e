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

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// Watch calls changed for each event of a pod of this agent, until the stream breaks or ctx ends; then it returns why: observed.ErrNoEvents
// if the runtime has no events. told has the pod's UID, and the IDs and states of the sandbox and the containers that the event tells of;
// none if it is that something was removed. changed gets nil once the runtime listens, and for an event that doesn't tell its pod. It isn't
// called after Watch has returned.
//
// A runtime listens once it has sent its header. containerd sends that with its first event, and that is when it can be relied on: in
// containerd 1.7 each event has a single reader, and for a while that may be a former one, which has gone.
func (r *Runtime) Watch(ctx context.Context, changed func(told *observed.Pod)) error {
	// The client doesn't look at ctx while it hands over an event: they have to be taken until it has returned.
	events := make(chan *runtimeapi.ContainerEventResponse)
	listening := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		// The client logs what it returns.
		quiet := klog.NewContext(ctx, logr.Discard())
		ended <- r.cfg.Runtime.GetContainerEvents(quiet, events, func(stream runtimeapi.RuntimeService_GetContainerEventsClient) {
			// A stream that couldn't be begun has no header.
			if header, err := stream.Header(); err == nil && header != nil {
				listening <- struct{}{}
			}
		})
	}()
	for {
		select {
		case <-listening:
			changed(nil)
		case e := <-events:
			switch uid, mine := r.podOf(e); {
			case mine && uid == "":
				changed(nil)
			case mine:
				changed(told(uid, e))
			}
		case err := <-ended:
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

// podOf is the UID of the pod that an event is of, or "" if the event doesn't tell: then it may be one of this agent's. mine is false if
// it isn't.
func (r *Runtime) podOf(e *runtimeapi.ContainerEventResponse) (uid types.UID, mine bool) {
	if s := e.GetPodSandboxStatus(); s != nil {
		return types.UID(s.GetLabels()[criconfig.PodUIDLabel]), r.mine(s.GetAnnotations())
	}
	for _, c := range e.GetContainersStatuses() {
		return types.UID(c.GetLabels()[criconfig.PodUIDLabel]), r.mine(c.GetAnnotations())
	}
	return "", true
}

// told is what an event tells of its pod: the states in it, and what it is itself about, of which the states may know less.
func told(uid types.UID, e *runtimeapi.ContainerEventResponse) *observed.Pod {
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
		pod.Containers = append(pod.Containers, observed.Container{ID: c.GetId(), State: stateOf(c.GetState())})
	}
	// A sandbox counts as a container here.
	pod.Containers = append(pod.Containers, observed.Container{ID: e.GetContainerId(), State: reached})
	return pod
}
