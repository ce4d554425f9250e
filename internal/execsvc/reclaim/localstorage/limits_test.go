package localstorage

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
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
	in := func(name string, bytes int64) map[string]diskusage.Figure {
		return map[string]diskusage.Figure{name: {Bytes: bytes}}
	}
	files := func(u diskusage.Usage) Usage { return Usage{Usage: u} }
	uncountable := files(diskusage.Usage{Uncountable: true, Err: errors.New("too deep")})
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		used Usage
		want string
	}{
		"nothing used":      {pod: limited(withDir(podOf("a"), "x", "1Mi"), "1Mi")},
		"no limit":          {pod: withDir(podOf("a"), "x", ""), used: files(diskusage.Usage{EmptyDirs: in("x", 9*mi), Logs: in("main", 9*mi)})},
		"exactly the limit": {pod: limited(withDir(podOf("a"), "x", "1Mi"), "1Mi"), used: files(diskusage.Usage{EmptyDirs: in("x", mi)})},
		"an emptyDir": {
			pod: withDir(withDir(podOf("a"), "y", "1Gi"), "x", "1Mi"), used: files(diskusage.Usage{EmptyDirs: map[string]diskusage.Figure{"x": {Bytes: mi + 1}, "y": {Bytes: 2 * mi}}}),
			want: `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `,
		},
		"an emptyDir first": {
			pod: limited(withDir(podOf("a"), "x", "1Mi"), "1Mi"), used: files(diskusage.Usage{EmptyDirs: in("x", 2*mi)}),
			want: `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `,
		},
		"a zero limit is none": {pod: limited(withDir(podOf("a"), "x", "0"), "0"), used: files(diskusage.Usage{EmptyDirs: in("x", mi), Logs: in("main", mi)})},
		"the pod, by its sum": {
			pod: limited(withDir(podOf("a"), "x", ""), "1Mi"), used: Usage{Usage: diskusage.Usage{EmptyDirs: in("x", mi/2), Logs: in("main", mi/4)}, Layers: in("main", mi/2)},
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		},
		"the pod, by a container without a limit": {
			pod: two, used: Usage{Layers: in("free", 2*mi)}, want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		},
		"a container": {
			pod: sidecar, used: Usage{Usage: diskusage.Usage{Logs: in("side", mi/2)}, Layers: in("side", mi)},
			want: `Container side exceeded its local ephemeral storage limit "1Mi". `,
		},
		"a container, and no overhead": {
			pod: overhead, used: Usage{Layers: in("main", mi+1)}, want: `Container main exceeded its local ephemeral storage limit "1Mi". `,
		},
		"the pod, by its hosts file": {
			pod: limited(podOf("a"), "1Mi"), used: files(diskusage.Usage{Hosts: diskusage.Figure{Bytes: mi + 1}}),
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		},
		"the pod, by files of no container": {
			pod: limited(podOf("a"), "1Mi"), used: files(diskusage.Usage{Logs: in("", mi+1)}),
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		},
		"a container, by its termination message": {
			pod: sidecar, used: files(diskusage.Usage{Messages: in("side", mi+1)}), want: `Container side exceeded its local ephemeral storage limit "1Mi". `,
		},
		"the pod, by an unfinished count": {
			pod: limited(podOf("a"), "1Mi"), want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
			used: Usage{Usage: diskusage.Usage{Logs: in("", mi/4), Unfinished: diskusage.Figure{Bytes: mi}}, Layers: in("main", 1)},
		},
		"an unfinished count below the last one": {
			pod: limited(podOf("a"), "1Mi"), used: files(diskusage.Usage{Logs: in("", mi/2), Unfinished: diskusage.Figure{Bytes: mi}}),
		},
		"an unfinished count, and a limited volume": {
			pod: withDir(podOf("a"), "x", "1Mi"), used: files(diskusage.Usage{Err: errors.New("late"), Unfinished: diskusage.Figure{Bytes: 9 * mi}}),
		},
		"uncountable": {
			pod: limited(withDir(podOf("a"), "x", "1Mi"), "1Mi"), used: uncountable,
			want: "Pod's local ephemeral storage cannot be measured, and has a limit: too deep. ",
		},
		"an uncountable pod with a limited volume": {
			pod: withDir(podOf("a"), "x", "1Mi"), used: uncountable,
			want: "Usage of EmptyDir volumes cannot be measured, and has a limit: too deep. ",
		},
		"an uncountable pod without a limit": {pod: withDir(podOf("a"), "x", ""), used: uncountable},
		"a layer of no container":            {pod: sidecar, used: Usage{Layers: in("debug", 2*mi)}},
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
		"a volume":     {pod: withDir(podOf("a"), "x", "1"), want: limits{emptyDirs: true}},
		"a container":  {pod: limited(podOf("a"), "1"), want: limits{pod: true}},
		"of each kind": {pod: limited(withDir(podOf("a"), "x", "1"), "1"), want: limits{emptyDirs: true, pod: true}},
	} {
		if got := limitsOf(tc.pod); got != tc.want {
			t.Errorf("%s: %+v; want %+v", name, got, tc.want)
		}
	}
}
