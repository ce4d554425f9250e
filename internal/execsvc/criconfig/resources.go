package criconfig

import (
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// How cpu quantities become cgroup values; limits are the kernel's.
const (
	sharesPerCPU = 1024
	minShares    = 2
	maxShares    = 262144
	// cfsPeriod and minQuota are in microseconds.
	cfsPeriod = 100_000
	minQuota  = 1_000
)

// linuxResources are the container's cgroup values and its rank for the OOM killer.
func linuxResources(pod *v1.Pod, c *v1.Container, memoryCapacity int64) *runtimeapi.LinuxContainerResources {
	request, hasRequest := c.Resources.Requests[v1.ResourceCPU]
	limit := amount(c.Resources.Limits, v1.ResourceCPU)
	// A limit alone is a request as well.
	if !hasRequest {
		request = limit
	}
	memory := amount(c.Resources.Limits, v1.ResourceMemory)
	return &runtimeapi.LinuxContainerResources{
		CpuShares:          cpuShares(request.MilliValue()),
		CpuPeriod:          cfsPeriod,
		CpuQuota:           cpuQuota(limit.MilliValue()),
		MemoryLimitInBytes: memory.Value(),
		OomScoreAdj:        oomScoreAdj(pod, c, memoryCapacity),
	}
}

func cpuShares(milli int64) int64 {
	return min(max(milli*sharesPerCPU/1000, minShares), maxShares)
}

// cpuQuota is the time in each cfsPeriod; zero for no limit.
func cpuQuota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*cfsPeriod/1000, minQuota)
}
