package criconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// list makes a ResourceList of "cpu" and "memory" quantities; empty ones are left out.
func list(cpu, memory string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func podOf(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: containers}}
}

func with(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func TestOOMScoreAdj(t *testing.T) {
	const gib = int64(1) << 30
	critical := func(source string, priority *int32) *v1.Pod {
		p := podOf(v1.Container{})
		p.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{podmeta.SourceAnnotation: source}}
		p.Spec.PriorityClassName, p.Spec.Priority = "system-node-critical", priority
		return p
	}
	for name, c := range map[string]struct {
		pod      *v1.Pod
		capacity int64
		want     int64
	}{
		"guaranteed":                      {podOf(with(nil, list("1", "1Gi"))), 4 * gib, -997},
		"best effort":                     {podOf(v1.Container{}), 4 * gib, 1000},
		"a quarter of the node":           {podOf(with(list("", "1Gi"), nil)), 4 * gib, 750},
		"all of the node":                 {podOf(with(list("", "4Gi"), nil)), 4 * gib, 3},
		"next to nothing":                 {podOf(with(list("", "1Ki"), nil)), 4 * gib, 999},
		"burstable by cpu":                {podOf(with(list("1", ""), nil)), 4 * gib, 999},
		"capacity unknown":                {podOf(with(list("", "1Gi"), nil)), 0, 999},
		"node-critical static":            {critical("file", nil), 4 * gib, -997},
		"node-critical, named source":     {critical("http:edge", nil), 4 * gib, -997},
		"node-critical by priority":       {critical("api", ptr.To[int32](2_000_001_000)), 4 * gib, -997},
		"node-critical by name alone":     {critical("api", nil), 4 * gib, 1000},
		"node-critical, source not known": {critical("", nil), 4 * gib, 1000},
	} {
		if got := oomScoreAdj(c.pod, &c.pod.Spec.Containers[0], c.capacity); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A sidecar is killed after the main containers that it serves: its score is no higher than the highest of theirs.
func TestOOMScoreAdjOfSidecars(t *testing.T) {
	const gib = int64(1) << 30
	for name, c := range map[string]struct {
		sidecar v1.Container
		main    []v1.Container
		want    int64
	}{
		"asks for nothing":            {v1.Container{}, []v1.Container{with(list("", "2Gi"), nil), with(list("", "1Gi"), nil)}, 750},
		"asks for less":               {with(list("", "64Mi"), nil), []v1.Container{with(list("", "1Gi"), nil)}, 750},
		"asks for more":               {with(list("", "2Gi"), nil), []v1.Container{with(list("", "1Gi"), nil)}, 500},
		"a main one asks for nothing": {v1.Container{}, []v1.Container{with(list("", "2Gi"), nil), {}}, 999},
	} {
		pod := podOf(c.main...)
		c.sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		pod.Spec.InitContainers = []v1.Container{c.sidecar}
		if got := oomScoreAdj(pod, &pod.Spec.InitContainers[0], 4*gib); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestLinuxResources(t *testing.T) {
	for name, c := range map[string]struct {
		container v1.Container
		want      *runtimeapi.LinuxContainerResources
	}{
		"nothing":       {v1.Container{}, &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000}},
		"request":       {with(list("250m", ""), nil), &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuPeriod: 100000, OomScoreAdj: 999}},
		"limit only":    {with(nil, list("2", "")), &runtimeapi.LinuxContainerResources{CpuShares: 2048, CpuPeriod: 100000, CpuQuota: 200000, OomScoreAdj: 999}},
		"smallest":      {with(nil, list("1m", "")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000, OomScoreAdj: 999}},
		"largest":       {with(list("1000", ""), nil), &runtimeapi.LinuxContainerResources{CpuShares: 262144, CpuPeriod: 100000, OomScoreAdj: 999}},
		"memory":        {with(list("", "16Mi"), list("", "32Mi")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, MemoryLimitInBytes: 32 << 20, OomScoreAdj: 999}},
		"zero, limited": {with(list("0", ""), list("1", "")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 100000, OomScoreAdj: 999}},
	} {
		got := LinuxResources(podOf(c.container), &c.container, &Node{})
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
