package execconfig

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// Node is what pods find on this node beside their own spec. Names and defaults are the kubelet's.
type Node struct {
	// CgroupRoot is the cgroup beneath which all is: "/". CgroupDriver is cgroupfs or systemd, for a runtime that doesn't say itself which
	// one it uses. Without CgroupsPerQOS pods have no cgroups of their own.
	CgroupRoot, CgroupDriver string
	CgroupsPerQOS            bool
	// EnforceNodeAllocatable is where the bounds of Allocatable are set: "pods", or "none".
	EnforceNodeAllocatable []string
	// PodPidsLimit is how many processes a pod may have; below zero: any number.
	PodPidsLimit int64
	// CPUQuota tells whether cpu limits are enforced, CPUQuotaPeriod in which spans: 100 ms.
	CPUQuota       bool
	CPUQuotaPeriod time.Duration
	// LimitedSwap lets burstable pods use the node's swap, in proportion to their memory requests.
	LimitedSwap bool
	// MemoryThrottlingFactor is how far between its request and its limit a container is slowed down, with cgroup v2; zero: nowhere.
	MemoryThrottlingFactor float64
	SingleProcessOOMKill   bool
	// ReserveMemory keeps from pods, with cgroup v2, the memory that others have asked for.
	ReserveMemory bool

	// MaxPods is how many pods may be here: 110. KubeReserved and SystemReserved are what pods don't get, EvictionHard below which amounts
	// of what pods may be evicted: quantities by resource or signal, or percentages.
	MaxPods                                    int
	KubeReserved, SystemReserved, EvictionHard map[string]string
	// Labels are further labels of this node.
	Labels map[string]string

	// ClusterDNS are the addresses of the cluster's DNS servers, ClusterDomain is its domain. ResolvConf is the file that pods' DNS
	// configuration begins with; empty: none.
	ClusterDNS                []string
	ClusterDomain, ResolvConf string

	// UnsafeSysctls are those that pods may set besides the safe ones: names, or prefixes that end with "*".
	UnsafeSysctls []string
	// SeccompDefault runs containers under the runtime's seccomp profile that say nothing.
	SeccompDefault bool

	// LocalStorageCapacityIsolation counts what pods use of the node's disk, and holds them to their limits.
	LocalStorageCapacityIsolation bool
	// IDsPerPod is how many user ids a pod with users of its own has: 65536, or a multiple.
	IDsPerPod int64
}

// supportedOfNode are the fields of a KubeletConfiguration that become a Node.
var supportedOfNode = []string{
	"cgroupRoot", "cgroupDriver", "cgroupsPerQOS", "enforceNodeAllocatable", "podPidsLimit", "cpuCFSQuota", "cpuCFSQuotaPeriod", "memorySwap",
	"memoryThrottlingFactor", "memoryReservationPolicy", "singleProcessOOMKill", "maxPods", "kubeReserved", "systemReserved", "evictionHard", "clusterDNS",
	"clusterDomain", "resolvConf", "allowedUnsafeSysctls", "seccompDefault", "localStorageCapacityIsolation", "userNamespaces",
}

func (n *Node) addFlags(fs *pflag.FlagSet) {
	n.IDsPerPod = idsPerPod
	fs.StringVar(&n.CgroupRoot, "cgroup-root", "/", "`cgroup` beneath which the pods' cgroups are")
	fs.StringVar(&n.CgroupDriver, "cgroup-driver", "cgroupfs", "`driver` of cgroups, cgroupfs or systemd, if the runtime doesn't say which one it uses")
	fs.BoolVar(&n.CgroupsPerQOS, "cgroups-per-qos", true, "give pods cgroups of their own, by class of service")
	fs.StringSliceVar(&n.EnforceNodeAllocatable, "enforce-node-allocatable", []string{"pods"}, "where what pods get together is bounded: pods, or none")
	fs.Int64Var(&n.PodPidsLimit, "pod-max-pids", -1, "`number` of processes that a pod may have; below 0: any")
	fs.BoolVar(&n.CPUQuota, "cpu-cfs-quota", true, "enforce cpu limits")
	fs.DurationVar(&n.CPUQuotaPeriod, "cpu-cfs-quota-period", 100*time.Millisecond, "`time` span in which a cpu limit holds")
	fs.IntVar(&n.MaxPods, "max-pods", 110, "`number` of pods that may be here")
	fs.StringToStringVar(&n.KubeReserved, "kube-reserved", nil, "resources that pods don't get, as they are for Kubernetes' own daemons: cpu=200m,memory=500Mi")
	fs.StringToStringVar(&n.SystemReserved, "system-reserved", nil, "resources that pods don't get, as they are for the system's daemons")
	n.EvictionHard = defaultEvictionHard()
	fs.Var(cliflag.NewLangleSeparatedMapStringString(&n.EvictionHard), "eviction-hard", "`thresholds` below which pods are evicted: memory.available<1Gi")
	fs.StringToStringVar(&n.Labels, "node-labels", nil, "`labels` of this node, for pods that choose their node by them")
	fs.StringSliceVar(&n.ClusterDNS, "cluster-dns", nil, "`addresses` of the cluster's DNS servers; default: pods use the node's")
	fs.StringVar(&n.ClusterDomain, "cluster-domain", "", "`domain` of the cluster, searched by pods that use the cluster's DNS")
	fs.StringVar(&n.ResolvConf, "resolv-conf", "/etc/resolv.conf", "`file` that pods' DNS configuration begins with; empty: none")
	fs.StringSliceVar(&n.UnsafeSysctls, "allowed-unsafe-sysctls", nil, "`sysctls` that pods may set besides the safe ones; a prefix ends with *")
	fs.BoolVar(&n.SeccompDefault, "seccomp-default", false, "run containers that say nothing under the runtime's seccomp profile")
	fs.BoolVar(&n.LocalStorageCapacityIsolation, "local-storage-capacity-isolation", true, "hold pods to their limits of the node's disk")
}

// idsPerPod is the default of IDsPerPod, and what it is a multiple of.
const idsPerPod = 1 << 16

// fromFile takes what the file says and no flag does.
func (n *Node) fromFile(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) {
	take(set, "cgroup-root", &n.CgroupRoot, c.CgroupRoot)
	take(set, "cgroup-driver", &n.CgroupDriver, c.CgroupDriver)
	takePointer(set, "cgroups-per-qos", &n.CgroupsPerQOS, c.CgroupsPerQOS)
	takeSlice(set, "enforce-node-allocatable", &n.EnforceNodeAllocatable, c.EnforceNodeAllocatable)
	if len(n.EnforceNodeAllocatable) == 0 {
		n.EnforceNodeAllocatable = []string{"none"} // An empty list doesn't survive being written to a file.
	}
	takePointer(set, "pod-max-pids", &n.PodPidsLimit, c.PodPidsLimit)
	takePointer(set, "cpu-cfs-quota", &n.CPUQuota, c.CPUCFSQuota)
	if c.CPUCFSQuotaPeriod != nil {
		take(set, "cpu-cfs-quota-period", &n.CPUQuotaPeriod, c.CPUCFSQuotaPeriod.Duration)
	}
	n.LimitedSwap = c.MemorySwap.SwapBehavior == limitedSwap
	takePointer(set, "", &n.MemoryThrottlingFactor, c.MemoryThrottlingFactor)
	n.ReserveMemory = c.MemoryReservationPolicy == kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy
	takePointer(set, "", &n.SingleProcessOOMKill, c.SingleProcessOOMKill)
	take(set, "max-pods", &n.MaxPods, int(c.MaxPods))
	takeMap(set, "kube-reserved", &n.KubeReserved, c.KubeReserved)
	takeMap(set, "system-reserved", &n.SystemReserved, c.SystemReserved)
	takeMap(set, "eviction-hard", &n.EvictionHard, evictionHardOf(c))
	takeSlice(set, "cluster-dns", &n.ClusterDNS, c.ClusterDNS)
	take(set, "cluster-domain", &n.ClusterDomain, c.ClusterDomain)
	takePointer(set, "resolv-conf", &n.ResolvConf, c.ResolverConfig)
	takeSlice(set, "allowed-unsafe-sysctls", &n.UnsafeSysctls, c.AllowedUnsafeSysctls)
	takePointer(set, "seccomp-default", &n.SeccompDefault, c.SeccompDefault)
	takePointer(set, "local-storage-capacity-isolation", &n.LocalStorageCapacityIsolation, c.LocalStorageCapacityIsolation)
	if c.UserNamespaces != nil {
		takePointer(set, "", &n.IDsPerPod, c.UserNamespaces.IDsPerPod)
	}
}

// The values of memorySwap.swapBehavior.
const (
	limitedSwap = "LimitedSwap"
	noSwap      = "NoSwap"
)

func takeSlice[T any](set *pflag.FlagSet, flag string, setting *[]T, value []T) {
	if value != nil && !set.Changed(flag) {
		*setting = value
	}
}

//nolint:gocritic // It is the setting that is set.
func takeMap[V any](set *pflag.FlagSet, flag string, setting *map[string]V, value map[string]V) {
	if value != nil && !set.Changed(flag) {
		*setting = value
	}
}

// sysctlPattern is a sysctl's name, perhaps with a star at its end.
var sysctlPattern = regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*([./]?\*)?$`)

// check calls wrong for each setting that can't be meant.
func (n *Node) check(file *kubeletconfig.Config, wrong func(flag, field, reason string)) {
	if n.CgroupDriver != "cgroupfs" && n.CgroupDriver != "systemd" {
		wrong("cgroup-driver", "cgroupDriver", fmt.Sprintf("it is %q; want cgroupfs or systemd", n.CgroupDriver))
	}
	if !path.IsAbs(n.CgroupRoot) || path.Clean(n.CgroupRoot) != n.CgroupRoot {
		wrong("cgroup-root", "cgroupRoot", fmt.Sprintf("it is %q; want a path like /pods", n.CgroupRoot))
	}
	for _, where := range n.EnforceNodeAllocatable {
		if !slices.Contains([]string{"pods", "none"}, where) {
			wrong("enforce-node-allocatable", "enforceNodeAllocatable", fmt.Sprintf("%q isn't supported; want pods or none", where))
		}
	}
	if n.CPUQuotaPeriod < time.Millisecond || n.CPUQuotaPeriod > time.Second {
		wrong("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", fmt.Sprintf("it is %v; want 1ms to 1s", n.CPUQuotaPeriod))
	}
	if b := file.MemorySwap.SwapBehavior; b != "" && b != limitedSwap && b != noSwap {
		wrong("", "memorySwap", fmt.Sprintf("swapBehavior is %q; want %s or %s", b, noSwap, limitedSwap))
	}
	if f := file.MemoryThrottlingFactor; f != nil && (*f <= 0 || *f > 1) {
		wrong("", "memoryThrottlingFactor", "it must be more than 0, and 1 at most")
	}
	if p := file.MemoryReservationPolicy; p != "" && p != kubeletconfigv1beta1.NoneMemoryReservationPolicy && !n.ReserveMemory {
		wrong("", "memoryReservationPolicy", fmt.Sprintf("it is %q; want %s or %s", p,
			kubeletconfigv1beta1.NoneMemoryReservationPolicy, kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy))
	}
	if n.MaxPods < 0 {
		wrong("max-pods", "maxPods", "it must not be less than zero")
	}
	for _, r := range []struct {
		flag, field string
		values      map[string]string
	}{{"kube-reserved", "kubeReserved", n.KubeReserved}, {"system-reserved", "systemReserved", n.SystemReserved}} {
		for name, value := range r.values {
			if q, err := resource.ParseQuantity(value); err != nil || q.Sign() < 0 {
				wrong(r.flag, r.field, fmt.Sprintf("%s is %q; want an amount, such as 500Mi", name, value))
			}
		}
	}
	checkThresholds("eviction-hard", "evictionHard", n.EvictionHard, wrong)
	for _, server := range n.ClusterDNS {
		if _, err := netip.ParseAddr(server); err != nil {
			wrong("cluster-dns", "clusterDNS", fmt.Sprintf("%q isn't an IP address", server))
		}
	}
	for _, sysctl := range n.UnsafeSysctls {
		if !sysctlPattern.MatchString(sysctl) {
			wrong("allowed-unsafe-sysctls", "allowedUnsafeSysctls", fmt.Sprintf("%q isn't the name of a sysctl, nor a prefix with * at its end", sysctl))
		}
	}
	if n.IDsPerPod <= 0 || n.IDsPerPod%idsPerPod != 0 || n.IDsPerPod > math.MaxUint32 {
		wrong("", "userNamespaces.idsPerPod", fmt.Sprintf("it is %d; want a multiple of %d, of 32 bits", n.IDsPerPod, idsPerPod))
	}
}
