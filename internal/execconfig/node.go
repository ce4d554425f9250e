package execconfig

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"regexp"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// Node configures the environment of pods on this node. Names and defaults are the kubelet's.
type Node struct {
	// CgroupRoot is the parent of all cgroups: "/". CgroupDriver is cgroupfs or systemd, for a runtime that doesn't
	// report its driver. Without CgroupsPerQOS pods have no cgroups of their own.
	CgroupRoot, CgroupDriver string
	CgroupsPerQOS            bool
	// EnforceNodeAllocatable is what is limited: pods to Allocatable, and the cgroups of Host to what is reserved for them.
	// The default is pods, or none without CgroupsPerQOS.
	EnforceNodeAllocatable []string
	// PodPidsLimit is the greatest number of processes of a pod; negative: no limit.
	PodPidsLimit int64
	// CPUQuota enforces CPU limits, in periods of CPUQuotaPeriod: 100 ms.
	CPUQuota       bool
	CPUQuotaPeriod time.Duration
	// LimitedSwap allows burstable pods to use the node's swap, in proportion to their memory requests.
	LimitedSwap bool
	// MemoryThrottlingFactor is the point between its request and its limit at which a container is throttled, with
	// cgroup v2; zero: none.
	MemoryThrottlingFactor float64
	SingleProcessOOMKill   bool
	// ReserveMemory protects the requested memory of pods from other pods, with cgroup v2.
	ReserveMemory bool

	// MaxPods is the greatest number of pods: 110. KubeReserved and SystemReserved are not available to pods.
	// EvictionHard are the thresholds below which pods are evicted. They are quantities by resource or signal, or
	// percentages.
	MaxPods                                    int
	KubeReserved, SystemReserved, EvictionHard map[string]string
	// Labels are further labels of this node.
	Labels map[string]string

	// ClusterDNS are the addresses of the cluster's DNS servers, and ClusterDomain is its domain. ResolvConf is the
	// base of pods' DNS configuration; empty: none.
	ClusterDNS                []string
	ClusterDomain, ResolvConf string

	// UnsafeSysctls are allowed besides the safe ones: names, or prefixes that end with "*".
	UnsafeSysctls []string
	// SeccompDefault runs containers without a profile under the runtime's default seccomp profile.
	SeccompDefault bool

	// LocalStorageCapacityIsolation measures the pods' use of the node's disk, and enforces their limits.
	LocalStorageCapacityIsolation bool
	// FailCgroupV1 refuses to start on a machine with cgroup v1. The kubelet's default is true, Podstream's false.
	FailCgroupV1 bool
	// IDsPerPod is the number of user IDs of a pod with a user namespace: 65536, or a multiple.
	IDsPerPod int64
}

// supportedOfNode are the fields of a KubeletConfiguration that set a Node.
var supportedOfNode = []string{
	"cgroupRoot", "cgroupDriver", "cgroupsPerQOS", "enforceNodeAllocatable", "podPidsLimit", "cpuCFSQuota", "cpuCFSQuotaPeriod", "memorySwap",
	"memoryThrottlingFactor", "memoryReservationPolicy", "singleProcessOOMKill", "maxPods", "kubeReserved", "systemReserved", "evictionHard", "clusterDNS",
	"clusterDomain", "resolvConf", "allowedUnsafeSysctls", "seccompDefault", "localStorageCapacityIsolation", "userNamespaces",
	"failCgroupV1",
}

func (n *Node) addFlags(fs *pflag.FlagSet) {
	n.IDsPerPod = idsPerPod
	fs.StringVar(&n.CgroupRoot, "cgroup-root", "/", "parent `cgroup` of the pods' cgroups")
	fs.StringVar(&n.CgroupDriver, "cgroup-driver", "cgroupfs", "`driver` of cgroups, cgroupfs or systemd, if the runtime doesn't report its driver")
	fs.BoolVar(&n.CgroupsPerQOS, "cgroups-per-qos", true, "create cgroups for pods, by QoS class")
	fs.StringSliceVar(&n.EnforceNodeAllocatable, "enforce-node-allocatable", []string{"pods"}, "what is limited to its resources: pods, system-reserved, kube-reserved, each of the latter also with -compressible, or none")
	fs.Int64Var(&n.PodPidsLimit, "pod-max-pids", -1, "`number` of processes that a pod may have; below 0: no limit")
	fs.BoolVar(&n.CPUQuota, "cpu-cfs-quota", true, "enforce cpu limits")
	fs.DurationVar(&n.CPUQuotaPeriod, "cpu-cfs-quota-period", 100*time.Millisecond, "`time` period of cpu limits")
	fs.IntVar(&n.MaxPods, "max-pods", 110, "greatest `number` of pods")
	fs.Var(cliflag.NewMapStringString(&n.KubeReserved), "kube-reserved", "`resources` reserved for Kubernetes' daemons: cpu=200m,memory=500Mi")
	fs.Var(cliflag.NewMapStringString(&n.SystemReserved), "system-reserved", "`resources` reserved for the system's daemons")
	n.EvictionHard = defaultEvictionHard()
	fs.Var(cliflag.NewLangleSeparatedMapStringString(&n.EvictionHard), "eviction-hard", "`thresholds` below which pods are evicted: memory.available<1Gi")
	fs.Var(cliflag.NewMapStringString(&n.Labels), "node-labels", "`labels` of this node, for pods with node selectors")
	fs.StringSliceVar(&n.ClusterDNS, "cluster-dns", nil, "`addresses` of the cluster's DNS servers; default: pods use the node's")
	fs.StringVar(&n.ClusterDomain, "cluster-domain", "", "`domain` of the cluster, searched by pods that use the cluster's DNS")
	fs.StringVar(&n.ResolvConf, "resolv-conf", "/etc/resolv.conf", "`file` that is the base of pods' DNS configuration; empty: none")
	fs.StringSliceVar(&n.UnsafeSysctls, "allowed-unsafe-sysctls", nil, "`sysctls` that pods may set besides the safe ones; a prefix ends with *")
	fs.BoolVar(&n.SeccompDefault, "seccomp-default", false, "run containers without a seccomp profile under the runtime's default profile")
	fs.BoolVar(&n.LocalStorageCapacityIsolation, "local-storage-capacity-isolation", true, "enforce pods' limits of ephemeral storage")
	fs.BoolVar(&n.FailCgroupV1, "fail-cgroupv1", false, "don't start on a machine with cgroup v1")
}

// idsPerPod is the default of IDsPerPod, which must be a multiple of it.
const idsPerPod = 1 << 16

// fromFile sets what the file sets and no flag does.
func (n *Node) fromFile(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) {
	take(set, "cgroup-root", &n.CgroupRoot, c.CgroupRoot)
	take(set, "cgroup-driver", &n.CgroupDriver, c.CgroupDriver)
	takePointer(set, "cgroups-per-qos", &n.CgroupsPerQOS, c.CgroupsPerQOS)
	takeSlice(set, "enforce-node-allocatable", &n.EnforceNodeAllocatable, c.EnforceNodeAllocatable)
	byDefault := c.EnforceNodeAllocatable == nil && !set.Changed("enforce-node-allocatable")
	if byDefault && !n.CgroupsPerQOS || len(n.EnforceNodeAllocatable) == 0 {
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
	takePointer(set, "fail-cgroupv1", &n.FailCgroupV1, c.FailCgroupV1)
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

// sysctlPattern matches a sysctl's name, optionally with a star at its end.
var sysctlPattern = regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*([./]?\*)?$`)

// check calls wrong for each invalid setting.
func (n *Node) check(file *kubeletconfig.Config, wrong func(flag, field, reason string)) {
	if n.CgroupDriver != "cgroupfs" && n.CgroupDriver != "systemd" {
		wrong("cgroup-driver", "cgroupDriver", fmt.Sprintf("it is %q; want cgroupfs or systemd", n.CgroupDriver))
	}
	if !path.IsAbs(n.CgroupRoot) || path.Clean(n.CgroupRoot) != n.CgroupRoot {
		wrong("cgroup-root", "cgroupRoot", fmt.Sprintf("it is %q; want a path like /pods", n.CgroupRoot))
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
	if n.MaxPods < 0 || n.MaxPods > math.MaxInt32 {
		wrong("max-pods", "maxPods", fmt.Sprintf("it is %d; want 0 to %d", n.MaxPods, math.MaxInt32))
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
