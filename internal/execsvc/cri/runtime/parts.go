package runtime

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// inParts returns a whole list. It is read by one call if it fits into one message. After an answer that didn't fit,
// the list is read in parts until a backoff is over, which grows while it still doesn't fit.
func inParts[T any](ctx context.Context, r *Runtime, what string, whole, parts func(context.Context) ([]T, error)) ([]T, error) {
	now := r.cfg.Clock.Now()
	if r.lists.IsInBackOffSinceUpdate(what, now) {
		return parts(ctx)
	}
	out, err := whole(ctx)
	switch {
	case err == nil:
		r.lists.DeleteEntry(what)
		return out, nil
	case status.Code(err) != codes.ResourceExhausted:
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	if r.lists.Get(what) == 0 {
		r.log.Warn("the runtime's list is too large for one message; it is read in parts, which takes longer", "list", what, "error", err)
	}
	r.lists.Next(what, now)
	return parts(ctx)
}

func (r *Runtime) allSandboxes(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	return r.cfg.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{})
}

func (r *Runtime) allContainers(ctx context.Context) ([]*runtimeapi.Container, error) {
	return r.cfg.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{})
}

// sandboxesByState reads the ready sandboxes first: a sandbox that stops being ready meanwhile is then in both answers,
// and never in neither.
func (r *Runtime) sandboxesByState(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	var out []*runtimeapi.PodSandbox
	for _, state := range []runtimeapi.PodSandboxState{
		runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
	} {
		some, err := r.cfg.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: state}})
		if status.Code(err) == codes.ResourceExhausted {
			return nil, fmt.Errorf("list sandboxes: those in state %s alone are too many, or their labels and annotations too long,"+
				" for one message of the runtime: %w", state, err)
		}
		if err != nil {
			return nil, fmt.Errorf("list sandboxes in state %s: %w", state, err)
		}
		listed := map[string]bool{}
		for _, s := range some {
			listed[s.GetId()] = true
		}
		out = slices.DeleteFunc(out, func(s *runtimeapi.PodSandbox) bool { return listed[s.GetId()] })
		out = append(out, some...)
	}
	return out, nil
}

// containersBySandbox reads the containers of each sandbox of this agent.
func (r *Runtime) containersBySandbox(ctx context.Context, sandboxes []*runtimeapi.PodSandbox) ([]*runtimeapi.Container, error) {
	var out []*runtimeapi.Container
	for _, s := range sandboxes {
		if !r.mine(s.GetLabels(), s.GetAnnotations()) {
			continue
		}
		some, err := r.cfg.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: s.GetId()})
		if status.Code(err) == codes.NotFound {
			// The sandbox was removed after it was listed, and its containers with it.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list containers of sandbox %s: %w", s.GetId(), err)
		}
		out = append(out, some...)
	}
	return out, nil
}
