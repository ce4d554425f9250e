package criconfig

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// hugepageLimits returns a limit for each size that the node has: the container's, or else the pod's, or else 0.
func hugepageLimits(pod *v1.Pod, c *v1.Container, sizes []int64) []*runtimeapi.HugepageLimit {
	asked := map[int64]int64{}
	for _, limits := range []v1.ResourceList{podLevel(pod).Limits, c.Resources.Limits} {
		for name, limit := range limits {
			text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if size, err := PageSize(text); ok && err == nil {
				asked[size] = limit.Value()
			}
		}
	}
	var out []*runtimeapi.HugepageLimit
	for _, size := range sizes {
		out = append(out, &runtimeapi.HugepageLimit{PageSize: pageSizeName(size), Limit: uint64(max(asked[size], 0))})
	}
	return out
}

// pageSizeName returns the size as in the file names of the kernel's hugetlb controller: 2MB, 1GB.
func pageSizeName(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	for size != 0 && size%1024 == 0 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	return fmt.Sprintf("%d%s", size, units[0])
}

// setSwap limits the container's swap, if the node can: to none, unless the container is of a burstable pod and gets a
// part.
func setSwap(out *runtimeapi.LinuxContainerResources, pod *v1.Pod, c *v1.Container, node *Node) {
	switch {
	case !node.SwapAccounting:
	case node.CgroupV2:
		setUnified(out, "memory.swap.max", swapLimit(pod, c, node))
	default:
		// In cgroup v1 the value includes the memory limit.
		out.MemorySwapLimitInBytes = out.MemoryLimitInBytes
	}
}

// Swaps reports whether the container may use the node's swap.
func Swaps(pod *v1.Pod, c *v1.Container, node *Node) bool {
	return node.SwapAccounting && node.CgroupV2 && swapLimit(pod, c, node) > 0
}

// swapLimit returns the container's part of the node's swap, in proportion to its memory request (KEP-2400).
func swapLimit(pod *v1.Pod, c *v1.Container, node *Node) int64 {
	if !node.LimitedSwap || podmeta.Preempts(pod) || podmeta.QOSClass(pod) != v1.PodQOSBurstable {
		return 0
	}
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	if request == 0 || request == limit || request > node.MemoryCapacity {
		return 0
	}
	return int64(float64(request) / float64(node.MemoryCapacity) * float64(node.SwapCapacity))
}

// setMemoryProtection protects the container's memory request from reclaim, and throttles the container before it
// reaches its limit (KEP-2570).
func setMemoryProtection(out *runtimeapi.LinuxContainerResources, pod *v1.Pod, c *v1.Container, node *Node) {
	if !node.CgroupV2 {
		return
	}
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	if node.MemoryQoS && request > 0 {
		switch podmeta.QOSClass(pod) {
		case v1.PodQOSGuaranteed:
			setUnified(out, "memory.min", request)
		case v1.PodQOSBurstable:
			setUnified(out, "memory.low", request)
		}
	}
	if node.MemoryThrottlingFactor <= 0 || request > 0 && request == limit {
		return
	}
	ceiling := limit
	if ceiling == 0 {
		ceiling = node.MemoryForPods
	}
	if ceiling == 0 {
		ceiling = node.MemoryCapacity
	}
	high := request + int64(float64(ceiling-request)*node.MemoryThrottlingFactor)
	high -= high % int64(os.Getpagesize())
	if high > request {
		setUnified(out, "memory.high", high)
	}
}

// setUnified sets a file of cgroup v2.
func setUnified(out *runtimeapi.LinuxContainerResources, file string, value int64) {
	if out.Unified == nil {
		out.Unified = map[string]string{}
	}
	out.Unified[file] = strconv.FormatInt(value, 10)
}
