package nodeinfo

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	"k8s.io/utils/ptr"
)

// defaultMaxPods is the kubelet's default.
const defaultMaxPods = 110

// Settings are the configured properties of the node, named as in a KubeletConfiguration.
type Settings struct {
	// Hostname becomes the label kubernetes.io/hostname. Empty: there is no such label.
	Hostname string
	// Labels are those of --node-labels. They override the ones that every node has.
	Labels map[string]string
	// RootDir is a directory of the file system whose size is the node's ephemeral storage. Empty: that isn't known,
	// and isn't bounded.
	RootDir string
	// MaxPods is how many pods may run: 110 for zero. PodsPerCore, if it isn't zero, bounds them by the processors too.
	MaxPods, PodsPerCore int
	// KubeReserved and SystemReserved are not allocatable to pods: cpu, memory, ephemeral-storage and pid.
	KubeReserved, SystemReserved map[string]string
	// ReservedCPUs is a list of CPUs, such as 0-1,4. If it isn't empty, their number replaces the cpu of KubeReserved and
	// SystemReserved.
	ReservedCPUs string
	// EvictionHard are the hard eviction thresholds; those of memory.available and nodefs.available aren't allocatable.
	// Nil: the kubelet's, 100Mi and 10%.
	EvictionHard map[string]string
	// Machine is the directory of the machine's /proc, /sys and /etc. Empty: /.
	Machine string
}

// Info has the properties of the node.
type Info struct {
	Labels map[string]string
	// Capacity has cpu, memory, ephemeral-storage, pods, and the huge pages of each size that the kernel supports, also
	// if there are none. Allocatable is the part that pods may request.
	Capacity, Allocatable v1.ResourceList
	// Bound limits all pods together: it is Allocatable plus the eviction thresholds, so that pods are evicted before the
	// kernel kills them. Unreserved limits them if they may also use what is reserved: it is Capacity. Both have pid too,
	// the number of processes, if the kernel says it.
	Bound, Unreserved v1.ResourceList
	// IgnoredPIDs is the number of processes that KubeReserved and SystemReserved reserve, if they leave too few for
	// pods: Bound then has all processes. Zero: the reservation has its effect.
	IgnoredPIDs resource.Quantity
	// System has all but the versions of the runtime and the agent. Unknown fields are empty.
	System v1.NodeSystemInfo
	// CgroupV2 is set if one hierarchy of cgroups has all controllers.
	CgroupV2 bool
	// NoCPUQuota is set if cgroups can't limit CPU time: a kernel with cgroup v1 may be built without that.
	NoCPUQuota bool
	// SwapAccounting is set if cgroups count swap, and can limit it.
	SwapAccounting bool
	// AppArmor is set if the kernel enforces AppArmor profiles.
	AppArmor bool
}

// Read reads the machine. It fails if the processors, the memory or the file system can't be read, or if Settings are
// contradictory.
func Read(s Settings) (Info, error) {
	m := machine{root: s.Machine}
	capacity, err := m.capacity()
	if err != nil {
		return Info{}, fmt.Errorf("read the machine's capacity: %w", err)
	}
	capacity[v1.ResourcePods] = *resource.NewQuantity(maxPods(s, capacity.Cpu().Value()), resource.DecimalSI)
	if s.RootDir != "" {
		if capacity[v1.ResourceEphemeralStorage], err = fileSystemSize(s.RootDir); err != nil {
			return Info{}, fmt.Errorf("read the size of the file system of %s: %w", s.RootDir, err)
		}
	}
	if s, err = m.reserveCPUs(s); err != nil {
		return Info{}, err
	}
	forPods, bound, err := allocatable(capacity, s)
	if err != nil {
		return Info{}, err
	}
	unreserved := maps.Clone(capacity)
	info := Info{
		Labels: labels(s), Capacity: capacity, Allocatable: forPods, Bound: bound, Unreserved: unreserved, System: m.system(), CgroupV2: m.cgroupV2(),
		NoCPUQuota: m.noCPUQuota(), SwapAccounting: m.swapAccounting(), AppArmor: m.appArmor(),
	}
	if n := m.processes(); n > 0 {
		unreserved[pidResource] = *resource.NewQuantity(n, resource.DecimalSI)
		if bound[pidResource], info.IgnoredPIDs, err = pidsForPods(unreserved[pidResource], s); err != nil {
			return Info{}, err
		}
	}
	return info, nil
}

// SwapCapacity is the node's swap space in bytes, zero if it has none.
func (i Info) SwapCapacity() int64 {
	if i.System.Swap == nil {
		return 0
	}
	return ptr.Deref(i.System.Swap.Capacity, 0)
}

// HugePageSizes returns the sizes that the kernel supports, in bytes, the smallest first.
func (i Info) HugePageSizes() []int64 {
	var sizes []int64
	for name := range i.Capacity {
		// capacity makes the names, so they parse.
		if size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix)); isHugePages(name) && err == nil {
			sizes = append(sizes, size.Value())
		}
	}
	slices.Sort(sizes)
	return sizes
}

func labels(s Settings) map[string]string {
	all := map[string]string{
		v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
		// Old manifests still select nodes by these.
		kubeletapis.LabelOS: runtime.GOOS, kubeletapis.LabelArch: runtime.GOARCH,
	}
	if s.Hostname != "" {
		all[v1.LabelHostname] = s.Hostname
	}
	maps.Copy(all, s.Labels)
	return all
}

func maxPods(s Settings, cores int64) int64 {
	limit := int64(s.MaxPods)
	if limit == 0 {
		limit = defaultMaxPods
	}
	if s.PodsPerCore > 0 {
		limit = min(limit, int64(s.PodsPerCore)*cores)
	}
	return limit
}
