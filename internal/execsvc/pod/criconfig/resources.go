package criconfig

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The conversion of CPU quantities to cgroup values; limits are the kernel's.
const (
	sharesPerCPU = 1024
	// MinShares and MaxShares bound CPUShares.
	MinShares = 2
	MaxShares = 262144
	// minQuota is in microseconds.
	minQuota         = 1_000
	defaultCPUPeriod = 100 * time.Millisecond
)

// CPUShares returns the weight of cgroup v1 for that many thousandths of a CPU.
func CPUShares(milli int64) int64 {
	return min(max(milli*sharesPerCPU/1000, MinShares), MaxShares)
}

// MilliCPU returns the least number of thousandths of a CPU with that weight.
func MilliCPU(shares int64) int64 {
	return (shares*1000 + sharesPerCPU - 1) / sharesPerCPU
}

// CPUQuota returns the time in microseconds for that many thousandths of a CPU in each period; zero for no limit. A
// period of zero means 100 ms.
func CPUQuota(milli int64, period time.Duration) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*cpuPeriod(period).Microseconds()/1000, minQuota)
}

func cpuPeriod(period time.Duration) time.Duration {
	if period == 0 {
		return defaultCPUPeriod
	}
	return period
}

// PodResources returns the requests and limits of the whole pod: the pod-level ones, or else the sums over its
// containers, in which init containers count as far as they need more than the containers after them. The overhead is
// part of both.
func PodResources(pod *v1.Pod) (requests, limits v1.ResourceList) {
	options := podresource.PodResourcesOptions{}
	return podresource.PodRequests(pod, options), podresource.PodLimits(pod, options)
}

// AllLimit reports whether each container, or the pod as a whole, limits the resource.
func AllLimit(pod *v1.Pod, resource v1.ResourceName) bool {
	if pod.Spec.Resources != nil {
		if limit := pod.Spec.Resources.Limits[resource]; !limit.IsZero() {
			return true
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if limit := list[i].Resources.Limits[resource]; limit.IsZero() {
				return false
			}
		}
	}
	return true
}

// sandboxResources returns the resources of all the pod's containers together, without the overhead.
func sandboxResources(pod *v1.Pod, node *Node) *runtimeapi.LinuxContainerResources {
	options := podresource.PodResourcesOptions{ExcludeOverhead: true}
	return cgroupValues(podresource.PodRequests(pod, options), podresource.PodLimits(pod, options), node)
}

// SandboxResources returns the values that an existing sandbox gets when its pod is resized: its overhead, and the
// resources of all its containers together.
func SandboxResources(pod *v1.Pod, node *Node) (overhead, containers *runtimeapi.LinuxContainerResources) {
	return overheadResources(pod, node), sandboxResources(pod, node)
}

// overheadResources returns the guaranteed resources of the sandbox itself. As with the kubelet they are empty, not
// nil, for a pod without an overhead.
func overheadResources(pod *v1.Pod, node *Node) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return &runtimeapi.LinuxContainerResources{}
	}
	return cgroupValues(pod.Spec.Overhead, pod.Spec.Overhead, node)
}

// LinuxResources returns the container's cgroup values and its oom_score_adj.
func LinuxResources(pod *v1.Pod, c *v1.Container, node *Node) *runtimeapi.LinuxContainerResources {
	out := cgroupValues(c.Resources.Requests, effectiveLimits(pod, c), node)
	out.OomScoreAdj = oomScoreAdj(pod, c, node.MemoryCapacity)
	out.HugepageLimits = hugepageLimits(pod, c, node.HugePageSizes)
	setSwap(out, pod, c, node)
	setMemoryProtection(out, pod, c, node)
	return out
}

// cgroupValues returns the values for CPU and memory.
func cgroupValues(requests, limits v1.ResourceList, node *Node) *runtimeapi.LinuxContainerResources {
	cpu, hasRequest := requests[v1.ResourceCPU]
	cpuLimit, memoryLimit := amount(limits, v1.ResourceCPU), amount(limits, v1.ResourceMemory)
	// A limit alone is the request too.
	if !hasRequest {
		cpu = cpuLimit
	}
	out := &runtimeapi.LinuxContainerResources{CpuShares: CPUShares(cpu.MilliValue()), MemoryLimitInBytes: memoryLimit.Value()}
	if !node.NoCPUQuota {
		out.CpuPeriod = cpuPeriod(node.CPUQuotaPeriod).Microseconds()
		out.CpuQuota = CPUQuota(cpuLimit.MilliValue(), node.CPUQuotaPeriod)
	}
	if node.CgroupV2 && !node.SingleProcessOOMKill {
		setUnified(out, "memory.oom.group", 1)
	}
	return out
}

// effectiveLimits returns the container's limits of CPU and memory. A missing one is that of the whole pod, so that the
// container's processes see the limit that applies to them (KEP-2837).
func effectiveLimits(pod *v1.Pod, c *v1.Container) v1.ResourceList {
	limits := v1.ResourceList{}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		limits[name] = amount(c.Resources.Limits, name)
		if own := limits[name]; own.IsZero() {
			limits[name] = amount(podLevel(pod).Limits, name)
		}
	}
	return limits
}

// podLevel returns the pod-level resources (KEP-2837); empty if there are none.
func podLevel(pod *v1.Pod) v1.ResourceRequirements {
	if !podresource.IsPodLevelResourcesSet(pod) {
		return v1.ResourceRequirements{}
	}
	return *pod.Spec.Resources
}

// amount returns the quantity of that name, or zero.
func amount(list v1.ResourceList, name v1.ResourceName) resource.Quantity { return list[name] }
