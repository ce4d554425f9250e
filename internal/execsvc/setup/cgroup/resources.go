package cgroup

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

const (
	// minWeight and maxWeight bound cpu.weight.
	minWeight = 1
	maxWeight = 10000
	// defaultPeriod is in microseconds.
	defaultPeriod = 100_000
)

// unlimited removes a limit. Zero would leave it unchanged.
const unlimited = -1

// pidsResource is the name of process IDs in a node's capacity and allocatable.
const pidsResource v1.ResourceName = "pid"

// settings are the node's settings for all cgroups.
type settings struct {
	v2 bool
	// hugePages are the page sizes that can be limited, as in the names of the cgroup's files: "2MB".
	hugePages []string
	// podPids is the process limit of a pod; zero or less for none.
	podPids int64
	// period is the period of cpu quotas, in microseconds.
	period  uint64
	noQuota bool
	// reserve enables memory.min and memory.low (v2).
	reserve bool
}

// pod returns the resources of the pod's cgroup. It sets each limit, so that a dropped one is removed.
func (s settings) pod(pod *v1.Pod) cgroups.Resources {
	requests, limits := helper.PodRequests(pod, helper.PodResourcesOptions{}), helper.PodLimits(pod, helper.PodResourcesOptions{})
	r := skipping()
	class := podmeta.QOSClass(pod)
	r.CpuPeriod, r.CpuQuota, r.Memory = s.period, unlimited, unlimited
	s.setShares(&r, requests.Cpu().MilliValue())
	if class == v1.PodQOSBestEffort {
		s.setShares(&r, 0)
	}
	// The whole pod is limited only if each container is, or the pod itself.
	if limit := limits.Cpu(); !s.noQuota && !limit.IsZero() && criconfig.AllLimit(pod, v1.ResourceCPU) {
		r.CpuQuota = criconfig.CPUQuota(limit.MilliValue(), time.Duration(s.period)*time.Microsecond) //nolint:gosec // It was a Duration.
	}
	if limit := limits.Memory(); !limit.IsZero() && criconfig.AllLimit(pod, v1.ResourceMemory) {
		r.Memory = limit.Value()
	}
	r.PidsLimit = ptr.To[int64](unlimited)
	if s.podPids > 0 {
		r.PidsLimit = &s.podPids
	}
	pages := hugePages(limits)
	for _, size := range s.hugePages {
		r.HugetlbLimit = append(r.HugetlbLimit, &cgroups.HugepageLimit{Pagesize: size, Limit: pages[size]})
	}
	switch class {
	case v1.PodQOSGuaranteed:
		s.setReserved(&r, requests.Memory().Value(), 0)
	case v1.PodQOSBurstable:
		s.setReserved(&r, 0, requests.Memory().Value())
	default:
		s.setReserved(&r, 0, 0)
	}
	return r
}

// kubepods returns the resources of all pods' cgroup. Resources missing in the list are unlimited.
func (s settings) kubepods(allocatable v1.ResourceList, asked asked) cgroups.Resources {
	r := skipping()
	if cpu, ok := allocatable[v1.ResourceCPU]; ok {
		s.setShares(&r, cpu.MilliValue())
	}
	r.Memory = unlimited
	if memory, ok := allocatable[v1.ResourceMemory]; ok && !memory.IsZero() {
		r.Memory = memory.Value()
	}
	r.PidsLimit = ptr.To[int64](unlimited)
	if pids, ok := allocatable[pidsResource]; ok && !pids.IsZero() {
		r.PidsLimit = ptr.To(pids.Value())
	}
	pages := hugePages(allocatable)
	for _, size := range s.hugePages {
		if limit, ok := pages[size]; ok {
			r.HugetlbLimit = append(r.HugetlbLimit, &cgroups.HugepageLimit{Pagesize: size, Limit: limit})
		}
	}
	// The kernel protects a cgroup's memory only as far as that of its parent, so the pods' reservations must be set
	// here too.
	s.setReserved(&r, asked.guaranteedMemory, asked.burstableMemory)
	return r
}

// burstable returns the resources of the burstable tier.
func (s settings) burstable(asked asked) cgroups.Resources {
	r := skipping()
	s.setShares(&r, asked.burstableCPU)
	s.setReserved(&r, 0, asked.burstableMemory)
	return r
}

// bestEffort returns the resources of the best-effort tier: the minimum share.
func (s settings) bestEffort() cgroups.Resources {
	r := skipping()
	s.setShares(&r, 0)
	return r
}

// asked are the sums of the pods' requests by class: cpu in millicores, memory in bytes.
type asked struct{ burstableCPU, burstableMemory, guaranteedMemory int64 }

func sum(pods []*v1.Pod) asked {
	var a asked
	for _, pod := range pods {
		requests := helper.PodRequests(pod, helper.PodResourcesOptions{})
		switch podmeta.QOSClass(pod) {
		case v1.PodQOSBurstable:
			a.burstableCPU += requests.Cpu().MilliValue()
			a.burstableMemory += requests.Memory().Value()
		case v1.PodQOSGuaranteed:
			a.guaranteedMemory += requests.Memory().Value()
		}
	}
	return a
}

// widen returns the wanted limits, or the current ones where those are looser.
func widen(want, have cgroups.Resources) cgroups.Resources {
	if looser(have.Memory, want.Memory) {
		want.Memory = have.Memory
	}
	// Periods may differ: compare the quotas as shares of a cpu.
	if have.CpuQuota < 0 || (want.CpuQuota > 0 && share(have) > share(want)) {
		want.CpuQuota = have.CpuQuota
		if have.CpuQuota > 0 {
			want.CpuPeriod = have.CpuPeriod
		}
	}
	return want
}

// looser reports whether the limit a in bytes is above b. Below zero is no limit.
func looser(a, b int64) bool { return b >= 0 && (a < 0 || a > b) }

func share(r cgroups.Resources) float64 { return float64(r.CpuQuota) / float64(max(r.CpuPeriod, 1)) }

// skipping returns resources that leave devices unchanged and processes unfrozen: the runtime manages a container's
// devices.
func skipping() cgroups.Resources { return cgroups.Resources{SkipDevices: true, SkipFreezeOnSet: true} }

// setShares sets the cpu shares. On v2 the weight is the kubelet's conversion of shares, so that its pods and these
// share proportionally.
func (s settings) setShares(r *cgroups.Resources, milli int64) {
	shares := criconfig.CPUShares(milli)
	if s.v2 {
		weight := minWeight + (shares-criconfig.MinShares)*(maxWeight-minWeight)/(criconfig.MaxShares-criconfig.MinShares)
		r.CpuWeight = uint64(weight)
		return
	}
	r.CpuShares = uint64(shares)
}

// setReserved sets the memory that is never reclaimed, and the memory that is reclaimed last. It also writes zeros,
// which remove an earlier configuration's values.
func (s settings) setReserved(r *cgroups.Resources, least, low int64) {
	if !s.v2 {
		return
	}
	if !s.reserve {
		least, low = 0, 0
	}
	r.Unified = map[string]string{"memory.min": strconv.FormatInt(least, 10), "memory.low": strconv.FormatInt(low, 10)}
}

// hugePages returns the list's huge pages in bytes, by the name of their size.
func hugePages(list v1.ResourceList) map[string]uint64 {
	pages := map[string]uint64{}
	for key, amount := range list {
		text, ok := strings.CutPrefix(string(key), v1.ResourceHugePagesPrefix)
		// The node has no pages of an unparsable size.
		if size, err := criconfig.PageSize(text); ok && err == nil {
			pages[pageSize(size)] += uint64(max(amount.Value(), 0))
		}
	}
	return pages
}

// pageSize formats a size in bytes as in the kernel's file names: "64KB", "2MB", "1GB".
func pageSize(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB"}
	at := 0
	for bytes >= 1024 && bytes%1024 == 0 && at < len(units)-1 {
		bytes /= 1024
		at++
	}
	return strconv.FormatInt(bytes, 10) + units[at]
}

// readLimit converts a kernel value. No limit is the greatest number of pages on v1, and "max" on v2.
func readLimit(value uint64) int64 {
	if value > math.MaxInt64/2 {
		return unlimited
	}
	return int64(value)
}
