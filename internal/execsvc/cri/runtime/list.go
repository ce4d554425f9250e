package runtime

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// List returns all pods of this agent that the runtime has, unordered, with the fields that lists have. Each list is
// one call, unless the answer is too large for one message: then it is read in parts.
func (r *Runtime) List(ctx context.Context) ([]*observed.Pod, error) {
	readAt, remembered := r.cfg.Clock.Now(), r.remembered()
	sandboxes, err := inParts(ctx, r, "sandboxes", r.allSandboxes, r.sandboxesByState)
	if err != nil {
		return nil, err
	}
	containers, err := inParts(ctx, r, "containers", r.allContainers, func(ctx context.Context) ([]*runtimeapi.Container, error) {
		return r.containersBySandbox(ctx, sandboxes)
	})
	if err != nil {
		return nil, err
	}
	pods := r.assemble(readAt, sandboxes, containers)
	r.dropGone(remembered, pods)
	return pods, nil
}

// Status returns one pod of this agent in full. A pod that the runtime doesn't have is returned empty, with its UID.
func (r *Runtime) Status(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	selector := map[string]string{podmeta.PodUIDLabel: string(uid)}
	readAt := r.cfg.Clock.Now()
	sandboxes, err := r.cfg.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the pod's sandboxes: %w", err)
	}
	containers, err := r.cfg.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the pod's containers: %w", err)
	}
	pods := r.assemble(readAt, sandboxes, containers)
	if len(pods) == 0 {
		return &observed.Pod{UID: uid, ReadAt: readAt}, nil
	}
	pod := pods[0]
	sandbox := pod.ReadySandbox()
	kept := pod.Containers[:0]
	for _, c := range pod.Containers {
		found, err := r.containerDetails(ctx, uid, &c, sandbox)
		if err != nil {
			return nil, err
		}
		if found {
			kept = append(kept, c)
		}
	}
	pod.Containers = kept
	limitMessages(pod.Containers)
	if sandbox != nil {
		if err := r.sandboxDetails(ctx, sandbox); err != nil {
			return nil, err
		}
	}
	return pod, nil
}

// assemble groups the listed sandboxes and containers into pods. It leaves out those of other agents.
func (r *Runtime) assemble(readAt time.Time, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) []*observed.Pod {
	return observed.Assemble(readAt, sandboxes, containers, r.mine)
}

// knownSandbox is the cached data of a sandbox that was ready.
type knownSandbox struct {
	observed.Sandbox
	// whole is set if the PID was requested.
	whole bool
}

// sandboxDetails completes a sandbox that is ready by the list. Its details never change.
func (r *Runtime) sandboxDetails(ctx context.Context, s *observed.Sandbox) error {
	r.mu.Lock()
	known, ok := r.sandboxes[s.ID]
	if ok && s.PID != 0 && !known.whole {
		known.PID, known.whole = s.PID, true
		r.sandboxes[s.ID] = known
	}
	r.mu.Unlock()
	if ok && known.whole {
		s.HostNetwork, s.IPs, s.PID = known.HostNetwork, known.IPs, known.PID
		return nil
	}
	// Only a verbose answer has the PID. It takes the runtime several times as long.
	return r.askSandbox(ctx, s, s.PID == 0)
}

// askSandbox reads the state of a sandbox, its network, and its PID if verbose is set.
func (r *Runtime) askSandbox(ctx context.Context, s *observed.Sandbox, verbose bool) error {
	resp, err := r.cfg.Runtime.PodSandboxStatus(ctx, s.ID, verbose)
	if status.Code(err) == codes.NotFound {
		s.Ready = false
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for the status of sandbox %s: %w", s.ID, err)
	}
	if verbose {
		s.PID = processesOf(resp.GetInfo()).PID
	}
	s.SetStatus(resp.GetStatus())
	if s.Ready && (s.HostNetwork || len(s.IPs) > 0) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sandboxes[s.ID] = knownSandbox{*s, verbose || s.PID != 0}
	}
	return nil
}
