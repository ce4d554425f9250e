package podexecapi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Restarter restarts containers: an execsvc.Agent.
type Restarter interface {
	// RestartPod returns once the request to restart the container, or with an empty name the pod, is on disk.
	RestartPod(ctx context.Context, uid types.UID, container string) (restarts.Accepted, error)
}

// maxContainerName is the longest name of a container.
const maxContainerName = 63

// RestartPod is part of podexec.v1.PodExecService.
func (s *Server) RestartPod(ctx context.Context, req *podexecv1.RestartPodRequest) (*podexecv1.RestartPodResponse, error) {
	if s.cfg.Restarts == nil {
		return nil, unimplemented("this podexecd restarts no containers")
	}
	if err := permit(ctx, podexecv1.PodExecService_RestartPod_FullMethodName); err != nil {
		return nil, err
	}
	v, err := s.view(ctx, nil)
	if err != nil {
		return nil, err
	}
	if n := len(req.GetContainer()); n > maxContainerName {
		return nil, invalidArgument("container: has %d bytes; names have at most %d", n, maxContainerName)
	}
	pod, err := v.find(s.cfg.Board, req.GetRef())
	if err != nil {
		return nil, err
	}
	accepted, err := s.cfg.Restarts.RestartPod(ctx, pod.UID, req.GetContainer())
	if err != nil {
		return nil, restartError(fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	resp := &podexecv1.RestartPodResponse{Ref: reference(pod), Joined: accepted.Joined, GracePeriodSeconds: accepted.GraceSeconds}
	for _, c := range accepted.Containers {
		resp.Containers = append(resp.Containers, &podexecv1.RestartedContainer{Name: c.Name, ContainerId: c.ID, RestartCount: c.RestartCount})
	}
	return resp, nil
}
