package criconfig

import "time"

// Node is what translation has to know of the node and of podexecd's settings. Zero: nothing is known of the node, and the settings are
// the kubelet's defaults.
type Node struct {
	// MemoryCapacity is the node's memory in bytes; zero if it isn't known.
	MemoryCapacity int64
	// MemoryAllocatable is what of it is for pods; zero means all.
	MemoryAllocatable int64
	// SwapCapacity is the node's swap in bytes; zero: none.
	SwapCapacity int64
	// SwapAccounting is set if the kernel's memory controller counts swap (memory.swap.max, or memory.memsw.limit_in_bytes of v1).
	// Where it doesn't, no limit of swap can be set and none is asked for.
	SwapAccounting bool
	// CgroupV2 is set if the node has the unified hierarchy only.
	CgroupV2 bool
	// LimitedSwap is memorySwap.swapBehavior: LimitedSwap. It counts with cgroup v2.
	LimitedSwap bool
	// MemoryQoS is memoryReservationPolicy: TieredReservation, which protects the requested memory by memory.min (Guaranteed) or
	// memory.low (Burstable). It counts with cgroup v2.
	MemoryQoS bool
	// MemoryThrottlingFactor is how far between a container's request and its limit memory.high is; zero: it isn't set. It counts with
	// cgroup v2.
	MemoryThrottlingFactor float64
	// NoCPUQuota is cpuCFSQuota: false.
	NoCPUQuota bool
	// CPUQuotaPeriod is cpuCFSQuotaPeriod; zero means 100 ms.
	CPUQuotaPeriod time.Duration
	// SeccompDefault runs containers under the runtime's seccomp profile where their pod says nothing.
	SeccompDefault bool
	// SeccompDir has the Localhost profiles of seccomp. Empty: there are none.
	SeccompDir string
	// SingleProcessOOMKill leaves it to the kernel which of a container's processes it kills; else all of them go together. It counts
	// with cgroup v2.
	SingleProcessOOMKill bool
	// HugePageSizes are those that the node has, in bytes.
	HugePageSizes []int64
}
