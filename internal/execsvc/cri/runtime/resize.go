package runtime

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Swaps reports whether the container may use the node's swap.
func (r *Runtime) Swaps(pod *v1.Pod, c *v1.Container) bool {
	return criconfig.Swaps(pod, c, &r.cfg.Node)
}

// outgrown returns the containers that must restart to be resized.
func (s *round) outgrown() map[string]bool {
	out := map[string]bool{}
	for _, change := range s.changes {
		if change.Restart {
			out[change.Container.ID] = true
		}
	}
	return out
}

// resize sets the resources of the running containers. It stops at the first failure: containers whose resources shrink
// free what others need to grow.
func (s *round) resize(ctx context.Context) error {
	for _, change := range s.changes {
		if change.Restart || s.stops(change.Container.ID) {
			continue
		}
		if err := s.update(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// stops reports whether this round stops the container. Its successor starts with the new resources.
func (s *round) stops(id string) bool {
	return s.do.KillPod || slices.ContainsFunc(s.do.Kill, func(k actions.Kill) bool { return k.Container.ID == id })
}

// unresized reports whether a container keeps its resources for now: its successor can't start yet, or it couldn't be
// stopped.
func (s *round) unresized() bool {
	return slices.ContainsFunc(s.changes, func(c resize.Change) bool { return c.Restart && !(s.ended && s.stops(c.Container.ID)) })
}

func (s *round) update(ctx context.Context, change resize.Change) error {
	id, name := change.Container.ID, change.Container.Name
	if change.Lowers {
		if err := s.checkUsage(ctx, id, name, change.Want.GetMemoryLimitInBytes()); err != nil {
			return fmt.Errorf("cannot decrease memory limits: %w", err)
		}
	}
	s.res.Acted = true
	err := s.cfg.Runtime.UpdateContainerResources(ctx, id, &runtimeapi.ContainerResources{Linux: change.Want})
	s.dropDetails(id)
	if err != nil {
		return fmt.Errorf("update the resources of container %s: %w", name, err)
	}
	s.log.Info("container was resized", "pod", podmeta.LogName(s.Pod), "uid", s.Pod.UID, "container", name, "id", id, "resources", change.Want.String())
	return nil
}

// checkUsage returns an error if the limit is below the container's usage: some kernels would kill the container.
func (s *round) checkUsage(ctx context.Context, id, name string, limit int64) error {
	stats, err := s.cfg.Runtime.ContainerStats(ctx, id)
	if err != nil {
		return fmt.Errorf("read the memory usage of container %s: %w", name, err)
	}
	if used := stats.GetMemory().GetUsageBytes().GetValue(); used >= uint64(max(limit, 0)) {
		return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", name, limit, used)
	}
	return nil
}

// ResizeSandbox reports the resources of the pod as a whole to the runtime, after its cgroup has them. A failure has no
// effect on the pod: runtimes have the call only since CRI 1.33, and it isn't repeated after one has answered that it
// is unimplemented.
func (r *Runtime) ResizeSandbox(ctx context.Context, pod *v1.Pod, has *observed.Pod) {
	box := has.ReadySandbox()
	if box == nil || r.noSandboxResize.Load() {
		return
	}
	overhead, containers := criconfig.SandboxResources(pod, &r.cfg.Node)
	_, err := r.cfg.Runtime.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: box.ID, Overhead: overhead, Resources: containers,
	})
	switch {
	case status.Code(err) == codes.Unimplemented:
		r.noSandboxResize.Store(true)
		r.log.Info("the container runtime doesn't support resizes of sandboxes")
	case err != nil:
		r.log.Warn("the container runtime rejected the resize of a sandbox; the pod is resized all the same",
			"pod", podmeta.LogName(pod), "uid", pod.UID, "sandbox", box.ID, "error", err)
	}
}

// dropDetails drops the container's cached details, and those that are being read now: the container has changed.
func (r *Runtime) dropDetails(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.details, id)
	r.updates++
}

// resourcesOf returns nil if the runtime doesn't report resources.
func resourcesOf(s *runtimeapi.ContainerStatus) *observed.Resources {
	linux := s.GetResources().GetLinux()
	if linux == nil {
		return nil
	}
	return &observed.Resources{
		CPUShares: linux.GetCpuShares(), CPUQuota: linux.GetCpuQuota(), CPUPeriod: linux.GetCpuPeriod(),
		MemoryLimit: linux.GetMemoryLimitInBytes(), Unified: linux.GetUnified(),
	}
}
