package world

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/inside"
)

// kubeletConfig writes a KubeletConfiguration with these fields, and returns podexecd's flag for it.
func kubeletConfig(t *testing.T, fields string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	check(t, os.WriteFile(path, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+fields), 0o644))
	return "--config=" + path
}

// protections are the files of cgroup v2 by which the kernel reclaims a cgroup's memory sooner or later.
var protections = []string{"memory.min", "memory.low", "memory.high"}

// protected expects these values in a container's cgroup, in the order of protections.
func protected(container string, values ...string) func(map[string]*inside.Report) error {
	return func(found map[string]*inside.Report) error {
		var got []string
		for _, name := range protections {
			got = append(got, found[container].Limits[name])
		}
		return same(fmt.Sprintf("%v of %s", protections, container), got, values)
	}
}

// protectedPod expects these values in the pod's cgroup.
func protectedPod(values ...string) func(*pod, map[string]*inside.Report) error {
	return func(p *pod, _ map[string]*inside.Report) error {
		dirs, err := p.cgroups()
		if err != nil {
			return err
		}
		var got []string
		for _, name := range protections {
			value, err := readValue(dirs[0], name)
			if err != nil {
				return err
			}
			got = append(got, value)
		}
		return same(fmt.Sprintf("%v of the pod", protections), got, values)
	}
}

// inPages returns a number of bytes, rounded down to whole pages, as the kernel has it.
func inPages(size uint64) string { return fmt.Sprint(size - size%uint64(os.Getpagesize())) }

const (
	burstableMemory  = `{containers: [{name: main, resources: {requests: {memory: 32Mi}, limits: {memory: 64Mi}}}]}`
	guaranteedMemory = `{containers: [{name: main, resources: {limits: {cpu: 100m, memory: 32Mi}}}]}`
)

// TestMemoryQoS: without configuration, no memory is protected or throttled. memoryThrottlingFactor throttles what has
// more than its request; memoryReservationPolicy protects requests, by class.
func TestMemoryQoS(t *testing.T) {
	t.Parallel()
	if !can(t, cgroupV2, nil, "memory-qos-burstable") {
		return
	}
	none := []string{"0", "0", "max"}
	unset := []row{
		{name: "memory of a burstable pod", spec: burstableMemory, all: protected("main", none...), node: protectedPod(none...)},
		{name: "memory of a guaranteed pod", spec: guaranteedMemory, all: protected("main", none...), node: protectedPod(none...)},
	}
	t.Run("unset", func(t *testing.T) { runRows(t, latest, unset) })
	t.Run("None", func(t *testing.T) {
		runRowsWith(t, latest, []string{kubeletConfig(t, "memoryThrottlingFactor: 0.5\nmemoryReservationPolicy: None\n")}, []row{
			{
				name: "throttled memory of a burstable pod", spec: burstableMemory,
				all: protected("main", "0", "0", fmt.Sprint(48<<20)), node: protectedPod(none...),
			},
			{name: "throttled memory of a guaranteed pod", spec: guaranteedMemory, all: protected("main", none...), node: protectedPod(none...)},
			{
				// Its limit is what the node has for pods, with what eviction keeps free.
				name: "throttled memory of a best effort pod", spec: `{}`,
				all: protected("main", "0", "0", inPages(totalMemory()/2)), node: protectedPod(none...),
			},
		})
	})
	t.Run("TieredReservation", func(t *testing.T) {
		request := fmt.Sprint(32 << 20)
		runRowsWith(t, latest, []string{kubeletConfig(t, "memoryReservationPolicy: TieredReservation\n")}, []row{
			{
				name: "reserved memory of a burstable pod", spec: burstableMemory,
				all: protected("main", "0", request, "max"), node: protectedPod("0", request, "max"),
			},
			{
				name: "reserved memory of a guaranteed pod", spec: guaranteedMemory,
				all: protected("main", request, "0", "max"), node: protectedPod(request, "0", "max"),
			},
			{name: "reserved memory of a best effort pod", spec: `{}`, all: protected("main", none...), node: protectedPod(none...)},
		})
	})
}

// TestLimitedSwap: a burstable pod of an API server gets a part of the node's swap, in proportion to its memory request.
// Other pods get none. Static pods are critical, and get none either.
func TestLimitedSwap(t *testing.T) {
	t.Parallel()
	if !can(t, cgroupV2, nil, "swap-limited-by-memory-request") || !can(t, swap, nil, "swap-limited-by-memory-request") {
		return
	}
	onOwnBench(t, latest, []string{kubeletConfig(t, "memorySwap: {swapBehavior: LimitedSwap}\n")}, func(t *testing.T, b *bench) {
		var machine unix.Sysinfo_t
		check(t, unix.Sysinfo(&machine))
		share := float64(64<<20) / float64(machine.Totalram) * float64(machine.Totalswap)
		want := map[string]string{"swap-burstable": inPages(uint64(share)), "swap-equal": "0", "swap-guaranteed": "0", "swap-best-effort": "0"}

		api := newAPISource(t, b)
		pods := map[string]*v1.Pod{
			"swap-burstable": apiPod("swap-burstable", "0", "64Mi"), "swap-equal": apiPod("swap-equal", "0", "64Mi"),
			"swap-guaranteed": apiPod("swap-guaranteed", "100m", "64Mi"), "swap-best-effort": apiPod("swap-best-effort", "0", "0"),
		}
		for name, pod := range pods {
			main := &pod.Spec.Containers[0]
			main.Args = []string{"inspect"}
			if name == "swap-equal" || name == "swap-guaranteed" {
				main.Resources.Limits = main.Resources.Requests.DeepCopy()
			}
		}
		api.apply(slices.Collect(maps.Values(pods))...)
		for name, swap := range want {
			api.await(name, isReady)
			p := &pod{t: t, b: b, name: name + "-" + b.Name, ctx: t.Context()}
			r, err := p.report(b.pod(p.name), "main")
			check(t, err)
			if got := r.Limits["memory.swap.max"]; got != swap {
				t.Errorf("%s may swap %s bytes; want %s", name, got, swap)
			}
		}
		static := newPod(t, b, "swap static")
		static.write("", `{containers: [{name: main, resources: {requests: {memory: 64Mi}}}]}`, nil, nil)
		check(t, same("what the static pod may swap", static.reports()["main"].Limits["memory.swap.max"], "0"))
	})
}
