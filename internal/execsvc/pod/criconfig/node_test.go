package criconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
)

func TestCPUQuota(t *testing.T) {
	for _, c := range []struct {
		milli  int64
		period time.Duration
		want   int64
	}{
		{0, 0, 0}, {1500, 0, 150_000}, {1500, 20 * time.Millisecond, 30_000}, {1, 0, 1000}, {500, time.Millisecond, 1000},
	} {
		if got := CPUQuota(c.milli, c.period); got != c.want {
			t.Errorf("CPUQuota(%d, %v) = %d, want %d", c.milli, c.period, got, c.want)
		}
	}
}

// A container's part of the swap is that of its memory request; without a request it has none.
func TestSwapLimit(t *testing.T) {
	node := func(change func(*Node)) *Node {
		n := &Node{MemoryCapacity: 8 * gib, SwapCapacity: 4 * gib, CgroupV2: true, SwapAccounting: true, LimitedSwap: true}
		change(n)
		return n
	}
	for name, c := range map[string]struct {
		node      *Node
		container v1.Container
		want      int64
	}{
		"a quarter":                 {node(func(*Node) {}), podtest.Sized(podtest.Amounts("", "2Gi"), nil), gib},
		"all":                       {node(func(*Node) {}), podtest.Sized(podtest.Amounts("", "8Gi"), nil), 4 * gib},
		"more than the node has":    {node(func(*Node) {}), podtest.Sized(podtest.Amounts("", "9Gi"), nil), 0},
		"no request":                {node(func(*Node) {}), podtest.Sized(podtest.Amounts("1", ""), podtest.Amounts("", "2Gi")), 0},
		"the memory isn't known":    {node(func(n *Node) { n.MemoryCapacity = 0 }), podtest.Sized(podtest.Amounts("", "2Gi"), nil), 0},
		"no request, none known":    {node(func(n *Node) { n.MemoryCapacity = 0 }), podtest.Sized(podtest.Amounts("1", ""), podtest.Amounts("", "2Gi")), 0},
		"the node has no swap":      {node(func(n *Node) { n.SwapCapacity = 0 }), podtest.Sized(podtest.Amounts("", "2Gi"), nil), 0},
		"no container may use swap": {node(func(n *Node) { n.LimitedSwap = false }), podtest.Sized(podtest.Amounts("", "2Gi"), nil), 0},
	} {
		if got := swapLimit(podtest.Of(c.container), &c.container, c.node); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// If the kernel doesn't count swap, a swap limit would be an error of the runtime.
func TestNoSwapLimitWithoutAccounting(t *testing.T) {
	c := podtest.Sized(podtest.Amounts("", "1Gi"), podtest.Amounts("", "2Gi"))
	for _, v2 := range []bool{false, true} {
		got := LinuxResources(podtest.Of(c), &c, &Node{MemoryCapacity: 8 * gib, SwapCapacity: gib, CgroupV2: v2, LimitedSwap: true})
		if got.GetMemorySwapLimitInBytes() != 0 || got.GetUnified()["memory.swap.max"] != "" {
			t.Errorf("cgroup v2 %v: swap is limited: %v", v2, got)
		}
	}
}

// A relayed pod has swap as at its source: a pod of an API server isn't a static one.
func TestSwapOfRelayedPods(t *testing.T) {
	node := &Node{MemoryCapacity: 8 * gib, SwapCapacity: 4 * gib, CgroupV2: true, SwapAccounting: true, LimitedSwap: true}
	c := podtest.Sized(podtest.Amounts("", "2Gi"), nil)
	for way, want := range map[string]bool{"first(1)/api": true, "second(2)/relay,first(1)/api:site": true, "first(1)/file": false} {
		pod := podtest.Of(c)
		pod.Annotations = map[string]string{podmeta.SourceAnnotation: "relay", podmeta.RelayPathAnnotation: way}
		if got := Swaps(pod, &c, node); got != want {
			t.Errorf("%s: it swaps: %v, want %v", way, got, want)
		}
	}
}

func TestPageSizeName(t *testing.T) {
	for size, want := range map[int64]string{64 << 10: "64KB", 2 << 20: "2MB", 512 << 20: "512MB", gib: "1GB", 16 * gib: "16GB", 0: "0B"} {
		if got := pageSizeName(size); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
	}
}

// An invalid size names no pages.
func TestHugepageLimitsIgnoreOtherNames(t *testing.T) {
	c := podtest.Sized(nil, v1.ResourceList{"hugepages-big": resource.MustParse("1Gi"), "hugepages-": resource.MustParse("1Gi"), "memory": resource.MustParse("2Mi")})
	got := hugepageLimits(podtest.Of(c), &c, []int64{2 << 20})
	if len(got) != 1 || got[0].GetPageSize() != "2MB" || got[0].GetLimit() != 0 {
		t.Errorf("%v; want 2MB: 0 and nothing else", got)
	}
}

func TestPodResources(t *testing.T) {
	sidecar := podtest.Sized(podtest.Amounts("100m", "1Gi"), podtest.Amounts("200m", "1Gi"))
	sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	pod := podtest.Of(podtest.Sized(podtest.Amounts("1", "1Gi"), podtest.Amounts("2", "2Gi")), podtest.Sized(podtest.Amounts("500m", ""), podtest.Amounts("", "1Gi")))
	pod.Spec.InitContainers = []v1.Container{sidecar, podtest.Sized(podtest.Amounts("3", "512Mi"), podtest.Amounts("3", "8Gi"))}
	check := func(what string, requests, limits v1.ResourceList) {
		t.Helper()
		gotRequests, gotLimits := PodResources(pod)
		if diff := cmp.Diff(requests, gotRequests); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(limits, gotLimits); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", what, diff)
		}
	}
	check("containers", podtest.Amounts("3100m", "2Gi"), podtest.Amounts("3200m", "9Gi"))
	// A pod without a limit doesn't get one by its overhead.
	pod.Spec.Overhead = podtest.Amounts("100m", "1Gi")
	check("with overhead", podtest.Amounts("3200m", "3Gi"), podtest.Amounts("3300m", "10Gi"))
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: podtest.Amounts("8", "16Gi"), Limits: podtest.Amounts("8", "")}
	check("the pod's own", podtest.Amounts("8100m", "17Gi"), podtest.Amounts("8100m", "10Gi"))
}

func TestQOSClassByThePodsOwnResources(t *testing.T) {
	full := podtest.Amounts("1", "1Gi")
	for name, c := range map[string]struct {
		own  *v1.ResourceRequirements
		want v1.PodQOSClass
	}{
		"nothing said":          {nil, v1.PodQOSBurstable},
		"said to be nothing":    {&v1.ResourceRequirements{}, v1.PodQOSBurstable},
		"requests equal limits": {&v1.ResourceRequirements{Requests: full, Limits: full}, v1.PodQOSGuaranteed},
		"limits only":           {&v1.ResourceRequirements{Limits: full}, v1.PodQOSGuaranteed},
		"requests only":         {&v1.ResourceRequirements{Requests: full}, v1.PodQOSBurstable},
		"zeros":                 {&v1.ResourceRequirements{Requests: podtest.Amounts("0", "0")}, v1.PodQOSBestEffort},
	} {
		pod := podtest.Of(podtest.Sized(podtest.Amounts("500m", ""), nil))
		pod.Spec.Resources = c.own
		if got := podmeta.QOSClass(pod); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A pod with hostUsers: false never gets the node's users.
func TestUserNamespaceNeedsARange(t *testing.T) {
	pod := webPod()
	pod.Spec.HostUsers = ptr.To(false)
	for name, ids := range map[string]*UserNamespace{"none": nil, "an empty one": {HostID: 65536}} {
		if _, err := SandboxConfig(SandboxInput{Pod: pod, UserNamespace: ids}); err == nil || !strings.Contains(err.Error(), "hostUsers") {
			t.Errorf("%s: the sandbox's error is %v", name, err)
		}
		_, err := ContainerConfig(ContainerInput{Pod: pod, Container: &pod.Spec.Containers[0], UserNamespace: ids})
		if err == nil || !strings.Contains(err.Error(), "hostUsers") {
			t.Errorf("%s: the container's error is %v", name, err)
		}
	}
}
