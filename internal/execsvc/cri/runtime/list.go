package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
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
	byUID := map[types.UID]*observed.Pod{}
	pod := func(labels map[string]string) *observed.Pod {
		uid := types.UID(labels[podmeta.PodUIDLabel])
		if byUID[uid] == nil {
			byUID[uid] = &observed.Pod{UID: uid, Namespace: labels[podmeta.PodNamespaceLabel], Name: labels[podmeta.PodNameLabel], ReadAt: readAt}
		}
		return byUID[uid]
	}
	for _, s := range sandboxes {
		if !r.mine(s.GetLabels(), s.GetAnnotations()) {
			continue
		}
		p := pod(s.GetLabels())
		p.Source = s.GetAnnotations()[podmeta.SourceAnnotation]
		p.Sandboxes = append(p.Sandboxes, observed.Sandbox{
			ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), Created: time.Unix(0, s.GetCreatedAt()),
			Ready: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		})
	}
	for _, c := range containers {
		if !r.mine(c.GetLabels(), c.GetAnnotations()) {
			continue
		}
		p := pod(c.GetLabels())
		p.Containers = append(p.Containers, observed.Container{
			ID: c.GetId(), Name: c.GetMetadata().GetName(), SandboxID: c.GetPodSandboxId(), Attempt: c.GetMetadata().GetAttempt(),
			State: stateOf(c.GetState()), Created: time.Unix(0, c.GetCreatedAt()), Image: c.GetImage().GetImage(), ImageRef: c.GetImageRef(),
			Hash: c.GetAnnotations()[criconfig.ContainerHashAnnotation], GracePeriod: graceOf(c.GetAnnotations()),
		})
	}
	var out []*observed.Pod
	for _, p := range byUID {
		slices.SortFunc(p.Sandboxes, func(a, b observed.Sandbox) int { return cmp.Compare(b.Attempt, a.Attempt) })
		slices.SortFunc(p.Containers, func(a, b observed.Container) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.Created.Compare(a.Created))
		})
		out = append(out, p)
	}
	return out
}

// graceOf returns the grace period that was recorded with the container: that of the deletion, or else the pod's own.
func graceOf(annotations map[string]string) *int64 {
	for _, key := range []string{criconfig.PodDeletionGracePeriodAnnotation, criconfig.PodTerminationGracePeriodAnnotation} {
		if n, err := strconv.ParseInt(annotations[key], 10, 64); err == nil {
			return &n
		}
	}
	return nil
}

func stateOf(s runtimeapi.ContainerState) observed.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return observed.Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return observed.Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return observed.Exited
	default:
		return observed.Unknown
	}
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
	s.Ready = resp.GetStatus().GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
	s.HostNetwork = resp.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	s.IPs = nil
	if ip := resp.GetStatus().GetNetwork().GetIp(); ip != "" && !s.HostNetwork {
		s.IPs = append(s.IPs, ip)
		for _, more := range resp.GetStatus().GetNetwork().GetAdditionalIps() {
			s.IPs = append(s.IPs, more.GetIp())
		}
	}
	if s.Ready && (s.HostNetwork || len(s.IPs) > 0) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sandboxes[s.ID] = knownSandbox{*s, verbose || s.PID != 0}
	}
	return nil
}
