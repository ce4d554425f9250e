package resize

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Change is a running container whose resources differ from its allocation.
type Change struct {
	Container observed.Container
	// Want has all its new resources.
	Want *runtimeapi.LinuxContainerResources
	// Restart is set if the container's resizePolicy has it restart for this change. It isn't set for an init container
	// that ends by itself: the API server allows no such policy, and what the container has done would be lost.
	Restart bool
	// Lowers is set if its memory limit shrinks.
	Lowers bool
}

// Changes returns the changes of the pod's init and main containers, those with less memory first. A container whose
// resources the runtime doesn't report counts as changed in all of them.
func Changes(pod *v1.Pod, has *observed.Pod, node criconfig.Node) []Change {
	var out []Change
	for i, c := range containers(pod) {
		last := has.Latest(c.Name)
		if last == nil || last.State != observed.Running {
			continue
		}
		ends := i < len(pod.Spec.InitContainers) && !podmeta.IsSidecar(c)
		want := criconfig.LinuxResources(pod, c, &node)
		now := ptr.Deref(last.Resources, observed.Resources{})
		cpu := last.Resources == nil || otherCPU(now, want)
		memory := last.Resources == nil || otherMemory(now, want) || otherRequest(last, c)
		if !cpu && !memory {
			continue
		}
		limit := want.MemoryLimitInBytes
		unlimit(now, want)
		out = append(out, Change{
			Container: *last, Want: want,
			Restart: !ends && (cpu && criconfig.RestartsFor(c, v1.ResourceCPU) || memory && criconfig.RestartsFor(c, v1.ResourceMemory)),
			Lowers:  limit > 0 && (now.MemoryLimit <= 0 || limit < now.MemoryLimit),
		})
	}
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

func rank(c Change) int {
	if c.Lowers {
		return 0
	}
	return 1
}

func otherCPU(has observed.Resources, want *runtimeapi.LinuxContainerResources) bool {
	quota := max(want.CpuQuota, 0)
	return has.CPUShares != want.CpuShares || max(has.CPUQuota, 0) != quota || quota > 0 && has.CPUPeriod != want.CpuPeriod
}

func otherMemory(has observed.Resources, want *runtimeapi.LinuxContainerResources) bool {
	if max(has.MemoryLimit, 0) != want.MemoryLimitInBytes {
		return true
	}
	for file, value := range want.Unified {
		// Not every runtime reports these.
		if now, reported := has.Unified[file]; reported && now != value && strings.HasPrefix(file, "memory.") {
			return true
		}
	}
	return false
}

// otherRequest reports whether the container was created with another memory request, if its resizePolicy has it
// restart for that.
func otherRequest(has *observed.Container, c *v1.Container) bool {
	return has.MemoryRequest != nil && *has.MemoryRequest != c.Resources.Requests.Memory().Value()
}

// unlimit removes limits that the container no longer has: a zero in an update leaves a limit as it is.
func unlimit(has observed.Resources, want *runtimeapi.LinuxContainerResources) {
	const unlimited = -1
	if want.CpuQuota == 0 && has.CPUQuota > 0 {
		want.CpuQuota = unlimited
	}
	if want.MemoryLimitInBytes == 0 && has.MemoryLimit > 0 {
		want.MemoryLimitInBytes = unlimited
	}
}
