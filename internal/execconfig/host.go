package execconfig

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"
)

// Host configures what podexecd sets on the machine itself, and on its own process. Names and defaults are the kubelet's.
type Host struct {
	// KubeReservedCgroup and SystemReservedCgroup are existing cgroups. EnforceNodeAllocatable limits them to KubeReserved
	// and SystemReserved.
	KubeReservedCgroup, SystemReservedCgroup string
	// KubeletCgroups is the cgroup that podexecd moves itself to, and SystemCgroups the one for the processes in the root
	// cgroup. Both are created. Empty: no process is moved.
	KubeletCgroups, SystemCgroups string
	// ReservedSystemCPUs is a list of CPUs, such as 0-1,4. Their number replaces the cpu of KubeReserved and SystemReserved.
	ReservedSystemCPUs string
	// PodsPerCore bounds MaxPods by the number of CPUs; zero: it doesn't.
	PodsPerCore int

	// ProtectKernelDefaults has podexecd fail if a setting of the kernel isn't the kubelet's. Otherwise podexecd sets them,
	// unless TuneKernel is false.
	ProtectKernelDefaults, TuneKernel bool
	// FailSwapOn has podexecd fail if swap is on.
	FailSwapOn bool
	// OOMScoreAdj is podexecd's oom_score_adj: -999. MaxOpenFiles is how many files it may open: 1000000.
	OOMScoreAdj  int
	MaxOpenFiles int64
}

// supportedOfHost are the fields of a KubeletConfiguration that set a Host.
var supportedOfHost = []string{
	"kubeReservedCgroup", "systemReservedCgroup", "kubeletCgroups", "systemCgroups", "reservedSystemCPUs", "podsPerCore",
	"protectKernelDefaults", "failSwapOn", "oomScoreAdj", "maxOpenFiles",
}

func (h *Host) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&h.KubeReservedCgroup, "kube-reserved-cgroup", "", "existing `cgroup` of Kubernetes' daemons, which --kube-reserved limits")
	fs.StringVar(&h.SystemReservedCgroup, "system-reserved-cgroup", "", "existing `cgroup` of the system's daemons, which --system-reserved limits")
	fs.StringVar(&h.KubeletCgroups, "kubelet-cgroups", "", "`cgroup` that podexecd moves itself to; it is created")
	fs.StringVar(&h.SystemCgroups, "system-cgroups", "", "`cgroup` for the processes that are in the root cgroup; it is created")
	fs.StringVar(&h.ReservedSystemCPUs, "reserved-cpus", "", "list of `CPUs` that are reserved, such as 0-1,4; it replaces the cpu of --kube-reserved and --system-reserved")
	fs.IntVar(&h.PodsPerCore, "pods-per-core", 0, "greatest `number` of pods for each CPU, within --max-pods; 0: no limit")
	fs.BoolVar(&h.ProtectKernelDefaults, "protect-kernel-defaults", false, "fail if a setting of the kernel isn't the kubelet's, in place of setting it")
	fs.BoolVar(&h.TuneKernel, "tune-kernel", true, "set the kernel's settings that the kubelet sets; false: only log those that differ")
	fs.BoolVar(&h.FailSwapOn, "fail-swap-on", true, "fail if swap is on")
	fs.IntVar(&h.OOMScoreAdj, "oom-score-adj", -999, "podexecd's oom_score_adj, a `number` from -1000 to 1000")
	fs.Int64Var(&h.MaxOpenFiles, "max-open-files", 1000000, "`number` of files that podexecd may open")
}

// fromFile sets what the file sets and no flag does.
func (h *Host) fromFile(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) {
	take(set, "kube-reserved-cgroup", &h.KubeReservedCgroup, c.KubeReservedCgroup)
	take(set, "system-reserved-cgroup", &h.SystemReservedCgroup, c.SystemReservedCgroup)
	take(set, "kubelet-cgroups", &h.KubeletCgroups, c.KubeletCgroups)
	take(set, "system-cgroups", &h.SystemCgroups, c.SystemCgroups)
	take(set, "reserved-cpus", &h.ReservedSystemCPUs, c.ReservedSystemCPUs)
	take(set, "pods-per-core", &h.PodsPerCore, int(c.PodsPerCore))
	take(set, "protect-kernel-defaults", &h.ProtectKernelDefaults, c.ProtectKernelDefaults)
	takePointer(set, "fail-swap-on", &h.FailSwapOn, c.FailSwapOn)
	if c.OOMScoreAdj != nil {
		adj := int(*c.OOMScoreAdj)
		takePointer(set, "oom-score-adj", &h.OOMScoreAdj, &adj)
	}
	take(set, "max-open-files", &h.MaxOpenFiles, c.MaxOpenFiles)
}

func (h *Host) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.KubeReservedCgroup, c.SystemReservedCgroup, c.KubeletCgroups, c.SystemCgroups = h.KubeReservedCgroup, h.SystemReservedCgroup, h.KubeletCgroups, h.SystemCgroups
	c.ReservedSystemCPUs, c.PodsPerCore, c.ProtectKernelDefaults, c.FailSwapOn = h.ReservedSystemCPUs, int32(h.PodsPerCore), h.ProtectKernelDefaults, &h.FailSwapOn //nolint:gosec // The settings were checked.
	adj := int32(h.OOMScoreAdj)                                                                                                                                     //nolint:gosec // as above
	c.OOMScoreAdj, c.MaxOpenFiles = &adj, h.MaxOpenFiles
}

// The values of enforceNodeAllocatable.
const (
	EnforcePods                       = "pods"
	EnforceSystemReserved             = "system-reserved"
	EnforceSystemReservedCompressible = "system-reserved-compressible"
	EnforceKubeReserved               = "kube-reserved"
	EnforceKubeReservedCompressible   = "kube-reserved-compressible"
	enforceNone                       = "none"
)

// Enforces reports whether enforceNodeAllocatable has the value.
func (n *Node) Enforces(where string) bool { return slices.Contains(n.EnforceNodeAllocatable, where) }

// check calls wrong for each invalid setting. n has the reservations that are enforced.
func (h *Host) check(n *Node, wrong func(flag, field, reason string)) {
	h.checkEnforced(n, func(reason string) { wrong("enforce-node-allocatable", "enforceNodeAllocatable", reason) })
	for _, c := range []struct{ flag, field, value string }{
		{"kube-reserved-cgroup", "kubeReservedCgroup", h.KubeReservedCgroup},
		{"system-reserved-cgroup", "systemReservedCgroup", h.SystemReservedCgroup},
		{"kubelet-cgroups", "kubeletCgroups", h.KubeletCgroups}, {"system-cgroups", "systemCgroups", h.SystemCgroups},
	} {
		if c.value == "" {
			continue
		}
		if at := path.Join("/", c.value); at == "/" || slices.Contains(strings.Split(c.value, "/"), "..") {
			wrong(c.flag, c.field, fmt.Sprintf("it is %q; want a cgroup beneath the root, such as /system.slice", c.value))
		}
	}
	if h.ReservedSystemCPUs != "" {
		if !validCPUs(h.ReservedSystemCPUs) {
			wrong("reserved-cpus", "reservedSystemCPUs", fmt.Sprintf("it is %q; want a list of CPUs, such as 0-1,4", h.ReservedSystemCPUs))
		}
		if h.SystemReservedCgroup != "" || h.KubeReservedCgroup != "" {
			wrong("reserved-cpus", "reservedSystemCPUs", "it can't be used with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)")
		}
	}
	if h.PodsPerCore < 0 || h.PodsPerCore > math.MaxInt32 {
		wrong("pods-per-core", "podsPerCore", fmt.Sprintf("it is %d; want 0 to %d", h.PodsPerCore, math.MaxInt32))
	}
	if h.OOMScoreAdj < -1000 || h.OOMScoreAdj > 1000 {
		wrong("oom-score-adj", "oomScoreAdj", fmt.Sprintf("it is %d; want -1000 to 1000", h.OOMScoreAdj))
	}
	if h.MaxOpenFiles <= 0 {
		wrong("max-open-files", "maxOpenFiles", fmt.Sprintf("it is %d; it must be more than zero", h.MaxOpenFiles))
	}
}

// maxCPU is more than the number of any CPU: Linux can be built for 8192 of them.
const maxCPU = 1 << 16

// validCPUs reports whether a text is a list of CPUs. The library makes an entry for each CPU of a range, so that the
// numbers are bounded before.
func validCPUs(list string) bool {
	for _, number := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '-' }) {
		if n, err := strconv.Atoi(number); err != nil || n > maxCPU {
			return false
		}
	}
	cpus, err := cpuset.Parse(list)
	return err == nil && !cpus.IsEmpty()
}

// checkEnforced calls wrong for each mistake in enforceNodeAllocatable.
func (h *Host) checkEnforced(n *Node, wrong func(reason string)) {
	seen := map[string]bool{}
	for _, where := range n.EnforceNodeAllocatable {
		if seen[where] {
			wrong(fmt.Sprintf("%q is in it twice", where))
			continue
		}
		seen[where] = true
		var cgroup, cgroupName, reservedName string
		var reserved map[string]string
		switch where {
		case EnforcePods:
			if !n.CgroupsPerQOS {
				wrong(`"pods" needs cgroupsPerQOS (--cgroups-per-qos)`)
			}
			continue
		case enforceNone:
			if len(n.EnforceNodeAllocatable) > 1 {
				wrong(`"none" can't be used with other values`)
			}
			continue
		case EnforceSystemReserved, EnforceSystemReservedCompressible:
			cgroup, cgroupName = h.SystemReservedCgroup, "systemReservedCgroup (--system-reserved-cgroup)"
			reserved, reservedName = n.SystemReserved, "systemReserved (--system-reserved)"
		case EnforceKubeReserved, EnforceKubeReservedCompressible:
			cgroup, cgroupName = h.KubeReservedCgroup, "kubeReservedCgroup (--kube-reserved-cgroup)"
			reserved, reservedName = n.KubeReserved, "kubeReserved (--kube-reserved)"
		default:
			wrong(fmt.Sprintf("%q is unknown; want pods, system-reserved, system-reserved-compressible, kube-reserved, kube-reserved-compressible or none", where))
			continue
		}
		if cgroup == "" {
			wrong(fmt.Sprintf("%q needs %s", where, cgroupName))
		}
		if len(reserved) == 0 {
			wrong(fmt.Sprintf("%q needs %s", where, reservedName))
		}
		if !n.CgroupsPerQOS {
			wrong(fmt.Sprintf("%q needs cgroupsPerQOS (--cgroups-per-qos)", where))
		}
	}
	for _, both := range [][2]string{{EnforceSystemReserved, EnforceSystemReservedCompressible}, {EnforceKubeReserved, EnforceKubeReservedCompressible}} {
		if seen[both[0]] && seen[both[1]] {
			wrong(fmt.Sprintf("%q and %q can't be used together", both[0], both[1]))
		}
	}
}

// warnings are settings that are accepted and hardly meant.
func (h *Host) warnings() []string {
	if h.KubeletCgroups != "" && h.KubeReservedCgroup != "" && !strings.HasPrefix(h.KubeletCgroups, h.KubeReservedCgroup) {
		return []string{"kubeletCgroups isn't within kubeReservedCgroup, so that kubeReserved doesn't limit podexecd"}
	}
	return nil
}
