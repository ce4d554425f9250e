package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const mi = 1 << 20

// list returns resources from pairs of name and amount.
func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// same returns a container whose requests equal its limits.
func same(pairs ...string) v1.Container { return container(list(pairs...), list(pairs...)) }

func podOf(uid types.UID, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}, Spec: v1.PodSpec{Containers: containers}}
}

func TestPodResources(t *testing.T) {
	withInit := podOf("u", same("cpu", "1", "memory", "64Mi"))
	withInit.Spec.InitContainers = []v1.Container{same("cpu", "2", "memory", "32Mi")}
	unlimitedInit := podOf("u", same("cpu", "1", "memory", "64Mi"))
	unlimitedInit.Spec.InitContainers = []v1.Container{container(nil, nil)}
	withOverhead := podOf("u", same("cpu", "1", "memory", "64Mi"))
	withOverhead.Spec.Overhead = list("cpu", "500m", "memory", "16Mi")
	podLevel := podOf("u", container(nil, nil), same("cpu", "100m", "memory", "8Mi"))
	podLevel.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "300m"), Limits: list("cpu", "2", "memory", "128Mi")}

	v1Node := settings{period: 100_000}
	for _, tc := range []struct {
		name     string
		settings settings
		pod      *v1.Pod
		want     cgroups.Resources
	}{
		{"guaranteed", v1Node, podOf("u", same("cpu", "500m", "memory", "64Mi"), same("cpu", "1", "memory", "64Mi")),
			cgroups.Resources{CpuShares: 1536, CpuQuota: 150_000, Memory: 128 * mi}},
		{"burstable, all limited", v1Node, podOf("u", container(list("cpu", "100m"), list("cpu", "1", "memory", "1Gi"))),
			cgroups.Resources{CpuShares: 102, CpuQuota: 100_000, Memory: 1024 * mi}},
		{"burstable, one without limits", v1Node, podOf("u", same("cpu", "1", "memory", "64Mi"), container(list("cpu", "250m"), nil)),
			cgroups.Resources{CpuShares: 1280, CpuQuota: unlimited, Memory: unlimited}},
		{"burstable, memory alone is limited", v1Node, podOf("u", same("memory", "64Mi")),
			cgroups.Resources{CpuShares: 2, CpuQuota: unlimited, Memory: 64 * mi}},
		{"best effort", v1Node, podOf("u", container(nil, nil)),
			cgroups.Resources{CpuShares: 2, CpuQuota: unlimited, Memory: unlimited}},
		{"an init container needs more", v1Node, withInit,
			cgroups.Resources{CpuShares: 2048, CpuQuota: 200_000, Memory: 64 * mi}},
		{"an init container has no limits", v1Node, unlimitedInit,
			cgroups.Resources{CpuShares: 1024, CpuQuota: unlimited, Memory: unlimited}},
		{"overhead", v1Node, withOverhead,
			cgroups.Resources{CpuShares: 1536, CpuQuota: 150_000, Memory: 80 * mi}},
		{"limits of the pod", v1Node, podLevel,
			cgroups.Resources{CpuShares: 307, CpuQuota: 200_000, Memory: 128 * mi}},
		{"least quota", v1Node, podOf("u", same("cpu", "1m", "memory", "1Mi")),
			cgroups.Resources{CpuShares: 2, CpuQuota: 1000, Memory: mi}},
		{"another period", settings{period: 10_000}, podOf("u", same("cpu", "2", "memory", "1Mi")),
			cgroups.Resources{CpuShares: 2048, CpuQuota: 20_000, CpuPeriod: 10_000, Memory: mi}},
		{"no quota", settings{period: 100_000, noQuota: true}, podOf("u", same("cpu", "2", "memory", "1Mi")),
			cgroups.Resources{CpuShares: 2048, CpuQuota: unlimited, Memory: mi}},
		{"process IDs", settings{period: 100_000, podPids: 77}, podOf("u", container(nil, nil)),
			cgroups.Resources{CpuShares: 2, CpuQuota: unlimited, Memory: unlimited, PidsLimit: ptr.To[int64](77)}},
		{"huge pages, one size of two", settings{period: 100_000, hugePages: []string{"2MB", "1GB"}},
			podOf("u", same("cpu", "1", "memory", "1Mi", "hugepages-2Mi", "4Mi"), same("cpu", "1", "memory", "1Mi", "hugepages-2Mi", "2Mi")),
			cgroups.Resources{CpuShares: 2048, CpuQuota: 200_000, Memory: 2 * mi,
				HugetlbLimit: []*cgroups.HugepageLimit{{Pagesize: "2MB", Limit: 6 * mi}, {Pagesize: "1GB"}}}},
		{"v2", settings{period: 100_000, v2: true}, podOf("u", same("cpu", "1", "memory", "64Mi")),
			cgroups.Resources{CpuWeight: 39, CpuQuota: 100_000, Memory: 64 * mi,
				Unified: map[string]string{"memory.min": "0", "memory.low": "0"}}},
		{"v2, guaranteed memory", settings{period: 100_000, v2: true, reserve: true}, podOf("u", same("cpu", "1", "memory", "1Mi")),
			cgroups.Resources{CpuWeight: 39, CpuQuota: 100_000, Memory: mi,
				Unified: map[string]string{"memory.min": "1048576", "memory.low": "0"}}},
		{"v2, burstable memory", settings{period: 100_000, v2: true, reserve: true}, podOf("u", container(list("memory", "1Mi"), nil)),
			cgroups.Resources{CpuWeight: 1, CpuQuota: unlimited, Memory: unlimited,
				Unified: map[string]string{"memory.min": "0", "memory.low": "1048576"}}},
		{"v2, best effort", settings{period: 100_000, v2: true, reserve: true}, podOf("u", container(nil, nil)),
			cgroups.Resources{CpuWeight: 1, CpuQuota: unlimited, Memory: unlimited,
				Unified: map[string]string{"memory.min": "0", "memory.low": "0"}}},
	} {
		tc.want.SkipDevices, tc.want.SkipFreezeOnSet = true, true
		if tc.want.CpuPeriod == 0 {
			tc.want.CpuPeriod = 100_000
		}
		if tc.want.PidsLimit == nil {
			tc.want.PidsLimit = ptr.To[int64](unlimited)
		}
		if diff := cmp.Diff(tc.want, tc.settings.pod(tc.pod), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestTierResources(t *testing.T) {
	pods := []*v1.Pod{
		podOf("a", container(list("cpu", "500m", "memory", "1Mi"), nil)),
		podOf("b", container(list("cpu", "1500m", "memory", "2Mi"), nil)),
		podOf("c", same("cpu", "4", "memory", "64Mi")),
		podOf("d", container(nil, nil)),
	}
	a := sum(pods)
	if want := (asked{burstableCPU: 2000, burstableMemory: 3 * mi, guaranteedMemory: 64 * mi}); a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	allocatable := list("cpu", "4", "memory", "8Gi", "pid", "1000", "hugepages-1Gi", "2Gi", "ephemeral-storage", "1Ti")
	old := settings{hugePages: []string{"2MB", "1GB"}}
	unified := settings{v2: true, reserve: true}
	for _, tc := range []struct {
		name      string
		got, want cgroups.Resources
	}{
		{"burstable", old.burstable(a), cgroups.Resources{CpuShares: 2048}},
		{"no burstable pods", old.burstable(asked{}), cgroups.Resources{CpuShares: 2}},
		{"more than there is", old.burstable(asked{burstableCPU: 1e9}), cgroups.Resources{CpuShares: 262144}},
		{"best effort", old.bestEffort(), cgroups.Resources{CpuShares: 2}},
		{"kubepods", old.kubepods(allocatable, a), cgroups.Resources{CpuShares: 4096, Memory: 8192 * mi, PidsLimit: ptr.To[int64](1000),
			HugetlbLimit: []*cgroups.HugepageLimit{{Pagesize: "1GB", Limit: 2048 * mi}}}},
		{"kubepods, nothing known", old.kubepods(nil, a), cgroups.Resources{Memory: unlimited, PidsLimit: ptr.To[int64](unlimited)}},
		{"burstable, v2", unified.burstable(a), cgroups.Resources{CpuWeight: 79,
			Unified: map[string]string{"memory.min": "0", "memory.low": "3145728"}}},
		{"more than there is, v2", unified.burstable(asked{burstableCPU: 1e9}), cgroups.Resources{CpuWeight: 10000,
			Unified: map[string]string{"memory.min": "0", "memory.low": "0"}}},
		{"kubepods, v2", unified.kubepods(list("cpu", "4"), a), cgroups.Resources{CpuWeight: 157, Memory: unlimited,
			PidsLimit: ptr.To[int64](unlimited), Unified: map[string]string{"memory.min": "67108864", "memory.low": "3145728"}}},
	} {
		tc.want.SkipDevices, tc.want.SkipFreezeOnSet = true, true
		if diff := cmp.Diff(tc.want, tc.got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestWiden(t *testing.T) {
	type limits struct {
		memory, quota int64
		period        uint64
	}
	none := limits{unlimited, unlimited, 100}
	for _, tc := range []struct {
		name             string
		want, have, next limits
	}{
		{"grow", limits{20, 20, 100}, limits{10, 10, 100}, limits{20, 20, 100}},
		{"shrink", limits{10, 10, 100}, limits{20, 20, 100}, limits{20, 20, 100}},
		{"one grows, the other shrinks", limits{20, 10, 100}, limits{10, 20, 100}, limits{20, 20, 100}},
		{"first limits", limits{10, 10, 100}, none, none},
		{"limits go", none, limits{10, 10, 100}, none},
		{"a longer period with less in it", limits{10, 20, 1000}, limits{10, 10, 100}, limits{10, 10, 100}},
		{"a longer period with more in it", limits{10, 200, 1000}, limits{10, 10, 100}, limits{10, 200, 1000}},
	} {
		resources := func(l limits) cgroups.Resources {
			return cgroups.Resources{Memory: l.memory, CpuQuota: l.quota, CpuPeriod: l.period, CpuShares: 5}
		}
		have := resources(tc.have)
		have.CpuShares = 7
		if diff := cmp.Diff(resources(tc.next), widen(resources(tc.want), have)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestPageSize(t *testing.T) {
	for bytes, want := range map[int64]string{64 << 10: "64KB", 2 << 20: "2MB", 32 << 20: "32MB", 1 << 30: "1GB", 16 << 30: "16GB", 0: "0B"} {
		if got := pageSize(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
	pages := hugePages(list("hugepages-2Mi", "4Mi", "hugepages-2048Ki", "2Mi", "cpu", "1", "hugepages-lots", "1"))
	if diff := cmp.Diff(map[string]uint64{"2MB": 6 * mi}, pages); diff != "" {
		t.Error(diff)
	}
}

func TestParseCPUMax(t *testing.T) {
	for text, want := range map[string][2]int64{"max 100000": {unlimited, 100_000}, "50000 10000": {50_000, 10_000}} {
		quota, period, err := parseCPUMax(text)
		if err != nil || quota != want[0] || period != uint64(want[1]) {
			t.Errorf("%q: %d, %d, %v", text, quota, period, err)
		}
	}
	for _, text := range []string{"", "max", "x 100000", "100000 x"} {
		if _, _, err := parseCPUMax(text); err == nil {
			t.Errorf("%q was parsed", text)
		}
	}
}
