package storage

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

const mi = 1 << 20

func TestExceeded(t *testing.T) {
	two := limited(podOf("a"), "1Mi")
	two.Spec.Containers = append(two.Spec.Containers, v1.Container{Name: "free"})
	sidecar := podOf("a")
	sidecar.Spec.InitContainers = limited(podOf("a"), "1Mi").Spec.Containers
	sidecar.Spec.InitContainers[0].Name, sidecar.Spec.InitContainers[0].RestartPolicy = "side", ptr.To(v1.ContainerRestartPolicyAlways)
	limited(sidecar, "2Mi")
	overhead := limited(podOf("a"), "1Mi")
	overhead.Spec.Overhead = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Mi")}
	in := func(name string, bytes int64) map[string]int64 { return map[string]int64{name: bytes} }
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		used Usage
		want string
	}{
		"nothing used":       {pod: limited(withDir(podOf("a"), "x", "1Mi"), "1Mi")},
		"no limit":           {pod: withDir(podOf("a"), "x", ""), used: Usage{Volumes: in("x", 9*mi), Logs: in("main", 9*mi)}},
		"as much as allowed": {pod: limited(withDir(podOf("a"), "x", "1Mi"), "1Mi"), used: Usage{Volumes: in("x", mi)}},
		"an emptyDir": {
			pod: withDir(withDir(podOf("a"), "y", "1Gi"), "x", "1Mi"), used: Usage{Volumes: map[string]int64{"x": mi + 1, "y": 2 * mi}},
			want: `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `,
		},
		"an emptyDir comes first": {
			pod: limited(withDir(podOf("a"), "x", "1Mi"), "1Mi"), used: Usage{Volumes: in("x", 2*mi)},
			want: `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `,
		},
		"a limit of nothing is none": {pod: limited(withDir(podOf("a"), "x", "0"), "0"), used: Usage{Volumes: in("x", mi), Logs: in("main", mi)}},
		"the pod, by all that it has": {
			pod: limited(withDir(podOf("a"), "x", ""), "1Mi"), used: Usage{Volumes: in("x", mi/2), Logs: in("main", mi/4), Layers: in("main", mi/2)},
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		},
		"the pod, by a container without a limit": {
			pod: two, used: Usage{Layers: in("free", 2*mi)}, want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		},
		"a container": {
			pod: sidecar, used: Usage{Logs: in("side", mi/2), Layers: in("side", mi)},
			want: `Container side exceeded its local ephemeral storage limit "1Mi". `,
		},
		"a container, and no overhead": {
			pod: overhead, used: Usage{Layers: in("main", mi+1)}, want: `Container main exceeded its local ephemeral storage limit "1Mi". `,
		},
		"nobody's layer": {pod: sidecar, used: Usage{Layers: in("debug", 2*mi)}},
	} {
		signal, got := exceeded(tc.pod, tc.used)
		kinds := map[string]string{"": "", "U": "emptydirfs.limit", "P": "ephemeralpodfs.limit", "C": "ephemeralcontainerfs.limit"}
		if got != tc.want || signal != kinds[tc.want[:min(len(tc.want), 1)]] {
			t.Errorf("%s: %s %q; want %q", name, signal, got, tc.want)
		}
	}
}

func TestLimitsOf(t *testing.T) {
	memory := withDir(podOf("a"), "x", "1Mi")
	memory.Spec.Volumes[0].EmptyDir.Medium = v1.StorageMediumMemory
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want limits
	}{
		"none":         {pod: withDir(podOf("a"), "x", "")},
		"zero":         {pod: limited(withDir(podOf("a"), "x", "0"), "0")},
		"in memory":    {pod: memory},
		"a volume":     {pod: withDir(podOf("a"), "x", "1"), want: limits{volumes: true}},
		"a container":  {pod: limited(podOf("a"), "1"), want: limits{whole: true}},
		"of each kind": {pod: limited(withDir(podOf("a"), "x", "1"), "1"), want: limits{volumes: true, whole: true}},
	} {
		if got := limitsOf(tc.pod); got != tc.want {
			t.Errorf("%s: %+v; want %+v", name, got, tc.want)
		}
	}
}
