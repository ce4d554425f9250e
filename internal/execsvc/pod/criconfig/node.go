package criconfig

import "time"

// Node has the properties of the node and the settings of podexecd that the translation needs. Zero: nothing is known
// of the node, and the settings are the kubelet's defaults.
type Node struct {
	// MemoryCapacity is the node's memory in bytes; zero if it isn't known.
	MemoryCapacity int64
	// MemoryForPods is the part that isn't reserved for others, with what is kept free by eviction; zero means all.
	MemoryForPods int64
	// SwapCapacity is the node's swap in bytes; zero: none.
	SwapCapacity int64
	// SwapAccounting is set if the kernel's memory controller counts swap (memory.swap.max, or
	// memory.memsw.limit_in_bytes of v1). Otherwise swap limits aren't possible, and none are set.
	SwapAccounting bool
	// CgroupV2 is set if the node has the unified hierarchy only.
	CgroupV2 bool
	// LimitedSwap is memorySwap.swapBehavior: LimitedSwap. It applies with cgroup v2.
	LimitedSwap bool
	// MemoryQoS is memoryReservationPolicy: TieredReservation, which protects the requested memory by memory.min
	// (Guaranteed) or memory.low (Burstable). It applies with cgroup v2.
	MemoryQoS bool
	// MemoryThrottlingFactor places memory.high between a container's request and its limit; zero: it isn't set. It
	// applies with cgroup v2.
	MemoryThrottlingFactor float64
	// NoCPUQuota is cpuCFSQuota: false.
	NoCPUQuota bool
	// CPUQuotaPeriod is cpuCFSQuotaPeriod; zero means 100 ms.
	CPUQuotaPeriod time.Duration
	// SeccompDefault runs containers with the runtime's seccomp profile if their pod sets none.
	SeccompDefault bool
	// SeccompDir has the node's Localhost seccomp profiles. Empty: there are none.
	SeccompDir string
	// SingleProcessOOMKill makes the kernel kill single processes of a container; otherwise it kills all of them. It
	// applies with cgroup v2.
	SingleProcessOOMKill bool
	// HugePageSizes are the node's, in bytes.
	HugePageSizes []int64
}
