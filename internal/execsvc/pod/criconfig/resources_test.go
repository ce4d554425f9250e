package criconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
)

func TestOOMScoreAdj(t *testing.T) {
	const gib = int64(1) << 30
	critical := func(source string, priority *int32) *v1.Pod {
		p := podtest.Of(v1.Container{})
		p.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{podmeta.SourceAnnotation: source}}
		p.Spec.PriorityClassName, p.Spec.Priority = "system-node-critical", priority
		return p
	}
	for name, c := range map[string]struct {
		pod      *v1.Pod
		capacity int64
		want     int64
	}{
		"guaranteed":                      {podtest.Of(podtest.Sized(nil, podtest.Amounts("1", "1Gi"))), 4 * gib, -997},
		"best effort":                     {podtest.Of(v1.Container{}), 4 * gib, 1000},
		"a quarter of the node":           {podtest.Of(podtest.Sized(podtest.Amounts("", "1Gi"), nil)), 4 * gib, 750},
		"all of the node":                 {podtest.Of(podtest.Sized(podtest.Amounts("", "4Gi"), nil)), 4 * gib, 3},
		"next to nothing":                 {podtest.Of(podtest.Sized(podtest.Amounts("", "1Ki"), nil)), 4 * gib, 999},
		"burstable by cpu":                {podtest.Of(podtest.Sized(podtest.Amounts("1", ""), nil)), 4 * gib, 999},
		"capacity unknown":                {podtest.Of(podtest.Sized(podtest.Amounts("", "1Gi"), nil)), 0, 999},
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
		"asks for nothing":            {v1.Container{}, []v1.Container{podtest.Sized(podtest.Amounts("", "2Gi"), nil), podtest.Sized(podtest.Amounts("", "1Gi"), nil)}, 750},
		"asks for less":               {podtest.Sized(podtest.Amounts("", "64Mi"), nil), []v1.Container{podtest.Sized(podtest.Amounts("", "1Gi"), nil)}, 750},
		"asks for more":               {podtest.Sized(podtest.Amounts("", "2Gi"), nil), []v1.Container{podtest.Sized(podtest.Amounts("", "1Gi"), nil)}, 500},
		"a main one asks for nothing": {v1.Container{}, []v1.Container{podtest.Sized(podtest.Amounts("", "2Gi"), nil), {}}, 999},
	} {
		pod := podtest.Of(c.main...)
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
		"request":       {podtest.Sized(podtest.Amounts("250m", ""), nil), &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuPeriod: 100000, OomScoreAdj: 999}},
		"limit only":    {podtest.Sized(nil, podtest.Amounts("2", "")), &runtimeapi.LinuxContainerResources{CpuShares: 2048, CpuPeriod: 100000, CpuQuota: 200000, OomScoreAdj: 999}},
		"smallest":      {podtest.Sized(nil, podtest.Amounts("1m", "")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000, OomScoreAdj: 999}},
		"largest":       {podtest.Sized(podtest.Amounts("1000", ""), nil), &runtimeapi.LinuxContainerResources{CpuShares: 262144, CpuPeriod: 100000, OomScoreAdj: 999}},
		"memory":        {podtest.Sized(podtest.Amounts("", "16Mi"), podtest.Amounts("", "32Mi")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, MemoryLimitInBytes: 32 << 20, OomScoreAdj: 999}},
		"zero, limited": {podtest.Sized(podtest.Amounts("0", ""), podtest.Amounts("1", "")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 100000, OomScoreAdj: 999}},
	} {
		got := LinuxResources(podtest.Of(c.container), &c.container, &Node{})
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
