package criconfig

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// How cpu quantities become cgroup values; limits are the kernel's.
const (
	sharesPerCPU = 1024
	// MinShares and MaxShares bound CPUShares.
	MinShares = 2
	MaxShares = 262144
	// minQuota is in microseconds.
	minQuota         = 1_000
	defaultCPUPeriod = 100 * time.Millisecond
)

// CPUShares is the weight, as cgroup v1 has it, of so many thousandths of a cpu.
func CPUShares(milli int64) int64 {
	return min(max(milli*sharesPerCPU/1000, MinShares), MaxShares)
}

// MilliCPU is the least number of thousandths of a cpu with that weight.
func MilliCPU(shares int64) int64 {
	return (shares*1000 + sharesPerCPU - 1) / sharesPerCPU
}

// CPUQuota is the time in microseconds that so many thousandths of a cpu have in each period; zero for no limit. A period of zero means
// 100 ms.
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

// PodResources are what the whole pod asks for and may use at most: what it says for itself, or else the sum over its containers, where
// init containers count as far as they need more than what runs after them. Its overhead is part of both.
func PodResources(pod *v1.Pod) (requests, limits v1.ResourceList) {
	options := podresource.PodResourcesOptions{}
	return podresource.PodRequests(pod, options), podresource.PodLimits(pod, options)
}

// sandboxResources are those of all the pod's containers together, without the overhead.
func sandboxResources(pod *v1.Pod, node *Node) *runtimeapi.LinuxContainerResources {
	options := podresource.PodResourcesOptions{ExcludeOverhead: true}
	return cgroupValues(podresource.PodRequests(pod, options), podresource.PodLimits(pod, options), node)
}

// SandboxResources are what a sandbox that is there is told when its pod has been resized: its overhead, which may be nil, and what all its
// containers have together.
func SandboxResources(pod *v1.Pod, node *Node) (overhead, containers *runtimeapi.LinuxContainerResources) {
	return overheadResources(pod, node), sandboxResources(pod, node)
}

// overheadResources are those of the sandbox itself, which it gets for certain. Nil: none are set aside.
func overheadResources(pod *v1.Pod, node *Node) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return nil
	}
	return cgroupValues(pod.Spec.Overhead, pod.Spec.Overhead, node)
}

// LinuxResources are the container's cgroup values and its rank for the OOM killer.
func LinuxResources(pod *v1.Pod, c *v1.Container, node *Node) *runtimeapi.LinuxContainerResources {
	out := cgroupValues(c.Resources.Requests, effectiveLimits(pod, c), node)
	out.OomScoreAdj = oomScoreAdj(pod, c, node.MemoryCapacity)
	out.HugepageLimits = hugepageLimits(pod, c, node.HugePageSizes)
	setSwap(out, pod, c, node)
	setMemoryProtection(out, pod, c, node)
	return out
}

// cgroupValues are those of cpu and memory.
func cgroupValues(requests, limits v1.ResourceList, node *Node) *runtimeapi.LinuxContainerResources {
	cpu, hasRequest := requests[v1.ResourceCPU]
	cpuLimit, memoryLimit := amount(limits, v1.ResourceCPU), amount(limits, v1.ResourceMemory)
	// A limit alone is a request as well.
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

// effectiveLimits are the container's limits of cpu and memory. It has those of the whole pod where it has none of its own, so that what
// runs in it sees a limit that it meets (KEP-2837).
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

// podLevel is what the pod says of its resources as a whole (KEP-2837); empty if it says nothing.
func podLevel(pod *v1.Pod) v1.ResourceRequirements {
	if !podresource.IsPodLevelResourcesSet(pod) {
		return v1.ResourceRequirements{}
	}
	return *pod.Spec.Resources
}

// amount is the quantity of that name, or zero.
func amount(list v1.ResourceList, name v1.ResourceName) resource.Quantity { return list[name] }
