package criconfig

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// hugepageLimits has a limit for each size that the node has: the container's, or else the pod's, or else 0, since what isn't asked for
// isn't to be had.
func hugepageLimits(pod *v1.Pod, c *v1.Container, sizes []int64) []*runtimeapi.HugepageLimit {
	asked := map[int64]int64{}
	for _, limits := range []v1.ResourceList{podLevel(pod).Limits, c.Resources.Limits} {
		for name, limit := range limits {
			if size, ok := hugepageSize(name); ok {
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

// hugepageSize is that of the pages, in bytes, of a resource named hugepages-SIZE.
func hugepageSize(name v1.ResourceName) (int64, bool) {
	text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !ok {
		return 0, false
	}
	size, err := resource.ParseQuantity(text)
	return size.Value(), err == nil
}

// pageSizeName is the size as the kernel's hugetlb controller has it in the names of its files: 2MB, 1GB.
func pageSizeName(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	for size != 0 && size%1024 == 0 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	return fmt.Sprintf("%d%s", size, units[0])
}

// setSwap limits the container's swap, where the node can: to none, unless a burstable pod's container has a part of it.
func setSwap(out *runtimeapi.LinuxContainerResources, pod *v1.Pod, c *v1.Container, node *Node) {
	switch {
	case !node.SwapAccounting:
	case node.CgroupV2:
		setUnified(out, "memory.swap.max", swapLimit(pod, c, node))
	default:
		// In cgroup v1 it is memory and swap together.
		out.MemorySwapLimitInBytes = out.MemoryLimitInBytes
	}
}

// Swaps tells whether the container may use some of the node's swap.
func Swaps(pod *v1.Pod, c *v1.Container, node *Node) bool {
	return node.SwapAccounting && node.CgroupV2 && swapLimit(pod, c, node) > 0
}

// swapLimit is the container's part of the node's swap, which is as large as the part of its memory that the container asks for (KEP-2400).
func swapLimit(pod *v1.Pod, c *v1.Container, node *Node) int64 {
	if !node.LimitedSwap || critical(pod) || QOSClass(pod) != v1.PodQOSBurstable {
		return 0
	}
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	if request == 0 || request == limit || request > node.MemoryCapacity {
		return 0
	}
	return int64(float64(request) / float64(node.MemoryCapacity) * float64(node.SwapCapacity))
}

// setMemoryProtection keeps what the container asks for from being reclaimed, and slows it down before it meets its limit (KEP-2570).
func setMemoryProtection(out *runtimeapi.LinuxContainerResources, pod *v1.Pod, c *v1.Container, node *Node) {
	if !node.CgroupV2 {
		return
	}
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	if node.MemoryQoS && request > 0 {
		switch QOSClass(pod) {
		case v1.PodQOSGuaranteed:
			setUnified(out, "memory.min", request)
		case v1.PodQOSBurstable:
			setUnified(out, "memory.low", request)
		}
	}
	if node.MemoryThrottlingFactor <= 0 || request == limit {
		return
	}
	ceiling := limit
	if ceiling == 0 {
		ceiling = node.MemoryAllocatable
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
