package cgroup

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

const (
	// minWeight and maxWeight bound cpu.weight.
	minWeight = 1
	maxWeight = 10000
	// defaultPeriod is in microseconds.
	defaultPeriod = 100_000
)

// unlimited takes a limit away. Zero would leave it as it is.
const unlimited = -1

// pidsResource is what a node's capacity and allocatable call process IDs.
const pidsResource v1.ResourceName = "pid"

// settings are what has to be known of the node to say what a cgroup gets.
type settings struct {
	v2 bool
	// hugePages are the sizes that can be limited, in the words of the cgroup's files: "2MB".
	hugePages []string
	// podPids is the processes that a pod may have; zero or less for any number.
	podPids int64
	// period is that of cpu quotas, in microseconds.
	period  uint64
	noQuota bool
	// reserve gives memory.min and memory.low (v2).
	reserve bool
}

// pod is what the pod's cgroup gets. It says something of each limit, so that one that is dropped goes.
func (s settings) pod(pod *v1.Pod) cgroups.Resources {
	requests, limits := helper.PodRequests(pod, helper.PodResourcesOptions{}), helper.PodLimits(pod, helper.PodResourcesOptions{})
	r := skipping()
	class := criconfig.QOSClass(pod)
	r.CpuPeriod, r.CpuQuota, r.Memory = s.period, unlimited, unlimited
	s.setShares(&r, requests.Cpu().MilliValue())
	if class == v1.PodQOSBestEffort {
		s.setShares(&r, 0)
	}
	// A limit of the whole pod needs one of each container, or of the pod itself.
	if limit := limits.Cpu(); !s.noQuota && !limit.IsZero() && allLimit(pod, v1.ResourceCPU) {
		r.CpuQuota = criconfig.CPUQuota(limit.MilliValue(), time.Duration(s.period)*time.Microsecond) //nolint:gosec // It was a Duration.
	}
	if limit := limits.Memory(); !limit.IsZero() && allLimit(pod, v1.ResourceMemory) {
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

// kubepods is what all pods get together: what the list has, and no limit of what it doesn't have.
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
	// The kernel protects no more of a cgroup than of what it is in, so what its pods are promised has to stand here as well.
	s.setReserved(&r, asked.guaranteedMemory, asked.burstableMemory)
	return r
}

// burstable is what the burstable pods get together.
func (s settings) burstable(asked asked) cgroups.Resources {
	r := skipping()
	s.setShares(&r, asked.burstableCPU)
	s.setReserved(&r, 0, asked.burstableMemory)
	return r
}

// bestEffort is what the pods that ask for nothing get together: what the others leave.
func (s settings) bestEffort() cgroups.Resources {
	r := skipping()
	s.setShares(&r, 0)
	return r
}

// asked is what pods ask for, by class: cpu in thousandths, memory in bytes.
type asked struct{ burstableCPU, burstableMemory, guaranteedMemory int64 }

func sum(pods []*v1.Pod) asked {
	var a asked
	for _, pod := range pods {
		requests := helper.PodRequests(pod, helper.PodResourcesOptions{})
		switch criconfig.QOSClass(pod) {
		case v1.PodQOSBurstable:
			a.burstableCPU += requests.Cpu().MilliValue()
			a.burstableMemory += requests.Memory().Value()
		case v1.PodQOSGuaranteed:
			a.guaranteedMemory += requests.Memory().Value()
		}
	}
	return a
}

// widen is the limits that are wanted, except where those that are there leave more room.
func widen(want, have cgroups.Resources) cgroups.Resources {
	if looser(have.Memory, want.Memory) {
		want.Memory = have.Memory
	}
	// Periods may differ: what counts is how much of a cpu the quota is.
	if have.CpuQuota < 0 || (want.CpuQuota > 0 && share(have) > share(want)) {
		want.CpuQuota = have.CpuQuota
		if have.CpuQuota > 0 {
			want.CpuPeriod = have.CpuPeriod
		}
	}
	return want
}

// looser tells whether the one limit in bytes leaves more room than the other. What is below zero is no limit.
func looser(a, b int64) bool { return b >= 0 && (a < 0 || a > b) }

func share(r cgroups.Resources) float64 { return float64(r.CpuQuota) / float64(max(r.CpuPeriod, 1)) }

// skipping is resources that leave devices alone, and processes unfrozen: the runtime sees to a container's devices.
func skipping() cgroups.Resources { return cgroups.Resources{SkipDevices: true, SkipFreezeOnSet: true} }

// setShares sets how the cpu is shared out among those that want it. A weight keeps the proportions of shares, as the kubelet's
// do, since pods of both may stand side by side.
func (s settings) setShares(r *cgroups.Resources, milli int64) {
	shares := criconfig.CPUShares(milli)
	if s.v2 {
		weight := minWeight + (shares-criconfig.MinShares)*(maxWeight-minWeight)/(criconfig.MaxShares-criconfig.MinShares)
		r.CpuWeight = uint64(weight)
		return
	}
	r.CpuShares = uint64(shares)
}

// setReserved sets the memory that isn't reclaimed, and that which is reclaimed last. Zeros are written too: else what another
// configuration reserved would stay.
func (s settings) setReserved(r *cgroups.Resources, least, low int64) {
	if !s.v2 {
		return
	}
	if !s.reserve {
		least, low = 0, 0
	}
	r.Unified = map[string]string{"memory.min": strconv.FormatInt(least, 10), "memory.low": strconv.FormatInt(low, 10)}
}

// allLimit tells whether each container has a limit of the resource, or the pod as a whole.
func allLimit(pod *v1.Pod, resource v1.ResourceName) bool {
	if pod.Spec.Resources != nil {
		if limit := pod.Spec.Resources.Limits[resource]; !limit.IsZero() {
			return true
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if limit := list[i].Resources.Limits[resource]; limit.IsZero() {
				return false
			}
		}
	}
	return true
}

// hugePages is the list's bytes in huge pages, by the size's name.
func hugePages(list v1.ResourceList) map[string]uint64 {
	pages := map[string]uint64{}
	for key, amount := range list {
		text, ok := strings.CutPrefix(string(key), v1.ResourceHugePagesPrefix)
		if !ok {
			continue
		}
		// A size that can't be read is one that the node doesn't have.
		if size, err := resource.ParseQuantity(text); err == nil {
			pages[pageSize(size.Value())] += uint64(max(amount.Value(), 0))
		}
	}
	return pages
}

// pageSize is a size in bytes as the kernel names files: "64KB", "2MB", "1GB".
func pageSize(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB"}
	at := 0
	for bytes >= 1024 && bytes%1024 == 0 && at < len(units)-1 {
		bytes /= 1024
		at++
	}
	return strconv.FormatInt(bytes, 10) + units[at]
}

// readLimit is a limit as the kernel tells it. v1 has the greatest number of pages for none, v2 "max".
func readLimit(value uint64) int64 {
	if value > math.MaxInt64/2 {
		return unlimited
	}
	return int64(value)
}
