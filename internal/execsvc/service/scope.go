package service

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
)

// errHidden stands for what went wrong with a pod, to those who may not see what that quotes.
var errHidden = errors.New("(redacted)")

// visible are the pods that the caller may see: those of its scope, and for an inspector without the words of containers and of the
// runtime, which may quote anything.
func (s *Server) visible(ctx context.Context) ([]Pod, error) {
	caller, ok := access.FromContext(ctx)
	if !ok || caller.Role == access.None {
		return nil, status.Error(codes.PermissionDenied, "the caller has no role")
	}
	if len(caller.Nodes) > 0 && !slices.Contains(caller.Nodes, s.node) {
		return nil, nil
	}
	var out []Pod
	for _, p := range s.pods() {
		if len(caller.Sources) > 0 && !slices.Contains(caller.Sources, p.Source) {
			continue
		}
		if caller.Role != access.Consumer {
			p = redacted(p)
		}
		out = append(out, p)
	}
	return out, nil
}

func redacted(p Pod) Pod {
	if p.Err != nil {
		p.Err = errHidden
	}
	if p.Status == nil {
		return p
	}
	p.Status = p.Status.DeepCopy()
	for _, list := range [][]v1.ContainerStatus{
		p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses,
	} {
		for i := range list {
			for _, state := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Waiting != nil {
					state.Waiting.Message = hide(state.Waiting.Message)
				}
				if state.Terminated != nil {
					state.Terminated.Message = hide(state.Terminated.Message)
				}
			}
		}
	}
	return p
}

// hide keeps it visible that there is something.
func hide(text string) string {
	if text == "" {
		return ""
	}
	return errHidden.Error()
}
