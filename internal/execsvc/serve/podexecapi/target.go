package podexecapi

import (
	"context"
	"errors"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// target is the running container of a call that acts in it.
type target struct {
	pod podview.Pod
	// container and id are its name, and its ID in the runtime.
	container, id string
	// defaulted is set as in chosen.
	defaulted *podexecv1.DefaultedContainer
	// spec is nil if podexecd has only the pod's status.
	spec *v1.Container
}

// targeting is the start of a call that names a container.
type targeting interface {
	GetRef() *podconfigv1.PodRef
	GetContainer() string
}

// target returns the container that a caller names, if it runs.
func (s *Server) target(ctx context.Context, start targeting) (target, error) {
	v, err := s.view(ctx, nil)
	if err != nil {
		return target{}, err
	}
	pod, err := v.find(s.cfg.Board, start.GetRef())
	if err != nil {
		return target{}, err
	}
	c, err := container(pod, start.GetContainer())
	if err != nil {
		return target{}, err
	}
	switch {
	case c.State.Terminated != nil:
		return target{}, failedPrecondition("container %s has ended", c.Name)
	case c.State.Running == nil:
		return target{}, failedPrecondition("container %s isn't running: %s", c.Name, waitingReason(c.ContainerStatus))
	}
	return target{pod: pod, container: c.Name, id: runtimeID(c.ContainerID), defaulted: c.defaulted, spec: specOf(pod.Object, c.Name)}, nil
}

// specOf returns the container of a pod with that name, of any kind, or nil.
func specOf(pod *v1.Pod, name string) *v1.Container {
	if pod == nil {
		return nil
	}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == name {
			common := v1.Container(c.EphemeralContainerCommon)
			return &common
		}
	}
	return nil
}

// startOf receives the first message of a call, whose start get returns.
func startOf[Req any, Start comparable](
	ctx context.Context, s *Server, stream interface{ Recv() (*Req, error) }, get func(*Req) Start,
) (start Start, err error) {
	first, err := firstMessage(ctx, stream)
	switch {
	case ctx.Err() != nil:
		return start, s.ended(ctx)
	case err != nil && !errors.Is(err, io.EOF):
		return start, err
	}
	var none Start
	if start = get(first); start == none {
		return start, errNotStarted
	}
	return start, nil
}

// acted logs that a caller acts in a container, so that the log has all that was done to a pod from outside. The
// command isn't logged, because it may have a password.
func (s *Server) acted(ctx context.Context, action string, to target) {
	caller, _ := access.FromContext(ctx)
	s.log.InfoContext(ctx, "a caller acts in a container", "action", action, "caller", caller.Identity,
		"pod", to.pod.Namespace+"/"+to.pod.Name, "uid", to.pod.UID, "container", to.container)
}
