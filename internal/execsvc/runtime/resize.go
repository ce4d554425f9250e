package runtime

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/resize"
)

// Swaps tells whether the container may use some of the node's swap.
func (r *Runtime) Swaps(pod *v1.Pod, c *v1.Container) bool {
	return criconfig.Swaps(pod, c, &r.cfg.Node)
}

// outgrown are the containers that have to start anew to be resized.
func (s *round) outgrown() map[string]bool {
	out := map[string]bool{}
	for _, change := range s.changes {
		if change.Restart {
			out[change.Container.ID] = true
		}
	}
	return out
}

// resize changes what the containers that run on are held to. After a failure the others are left as they are: those that get less make
// room for those that get more.
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

// stops tells whether this round ends the container. What starts after it has what it is to have.
func (s *round) stops(id string) bool {
	return s.do.KillPod || slices.ContainsFunc(s.do.Kill, func(k actions.Kill) bool { return k.Container.ID == id })
}

// unresized tells whether a container goes on as it was for now: its successor can't start yet, or it couldn't be stopped.
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
	s.forgetDetails(id)
	if err != nil {
		return fmt.Errorf("update the resources of container %s: %w", name, err)
	}
	s.log.Info("container was resized", "pod", podName(s.Pod), "uid", s.Pod.UID, "container", name, "id", id, "resources", change.Want.String())
	return nil
}

// checkUsage is the error of a limit below what the container uses: some kernels would kill it for that.
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

// ResizeSandbox tells the runtime what the pod has as a whole, now that its cgroup has it. Nothing hangs on that: runtimes have the call only
// since CRI 1.33, and are asked no more once they have said that they don't.
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
		r.log.Info("the container runtime isn't told of the resizes of sandboxes: it doesn't take that")
	case err != nil:
		r.log.Warn("the container runtime wasn't told of a pod's resize, which is done all the same",
			"pod", podName(pod), "uid", pod.UID, "sandbox", box.ID, "error", err)
	}
}

// forgetDetails has the container asked for again: it isn't any more what it was, nor what is being read of it now.
func (r *Runtime) forgetDetails(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.details, id)
	r.updates++
}

// resourcesOf are nil if the runtime doesn't tell.
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
