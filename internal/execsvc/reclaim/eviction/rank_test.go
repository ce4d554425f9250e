package eviction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// podOf returns a pod of one container, "main", with such requests of memory and of ephemeral storage.
func podOf(uid types.UID, priority int32, asks string) *v1.Pod {
	q := resource.MustParse(asks)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: "pod-" + string(uid)},
		Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: q, v1.ResourceEphemeralStorage: q}},
		}}},
	}
}

func TestRank(t *testing.T) {
	pods := []*v1.Pod{
		podOf("within-low", 0, "500"), podOf("within-high", 9, "500"), podOf("over-little", 5, "100"), podOf("over-much", 5, "100"),
		podOf("over-high", 9, "100"), podOf("over-low", -1, "100"), podOf("unknown", -9, "100"),
	}
	used := map[types.UID]usage{
		"within-low": {pod: 500}, "within-high": {pod: 1}, "over-little": {pod: 101}, "over-much": {pod: 900}, "over-high": {pod: 5000},
		"over-low": {pod: 101},
	}
	const beyond = "over-low over-much over-little over-high "
	for name, want := range map[v1.ResourceName]string{
		v1.ResourceMemory:           beyond + "within-low within-high ",
		v1.ResourceEphemeralStorage: beyond + "within-low within-high ",
		// Inodes and processes have no requests: all pods exceed them.
		inodes: "over-low within-low over-much over-little over-high within-high ",
		pids:   "over-low within-low over-much over-little over-high within-high ",
	} {
		got := ""
		for _, pod := range rank(pods, name, used) {
			got += string(pod.UID) + " "
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if pods[0].UID != "within-low" {
		t.Error("the caller's list was sorted")
	}
}

func TestMessage(t *testing.T) {
	pod := podOf("a", 0, "50Mi")
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "none"}, v1.Container{Name: "unknown"})
	pod.Spec.InitContainers = []v1.Container{{Name: "side"}}
	whole := pod.DeepCopy()
	whole.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}
	used := usage{pod: 100 << 20, containers: map[string]int64{"main": 60 << 20, "none": 0, "side": 1 << 20, "gone": 5}}
	least, left := resource.MustParse("100Mi"), resource.MustParse("90Mi")
	for name, c := range map[string]struct {
		pod  *v1.Pod
		of   v1.ResourceName
		used usage
		want string
	}{
		"memory": {
			pod, v1.ResourceMemory, used, "Container main was using 60Mi, request is 50Mi, has larger consumption of memory. " +
				"Container side was using 1Mi, request is 0, has larger consumption of memory. ",
		},
		"disk": {
			pod, v1.ResourceEphemeralStorage, usage{containers: map[string]int64{"main": 51 << 20}},
			"Container main was using 51Mi, request is 50Mi, has larger consumption of ephemeral-storage. ",
		},
		"the pod asks": {
			whole, v1.ResourceMemory, usage{pod: 100 << 20}, "Pod pod-a was using 100Mi, request is 1Gi, has larger consumption of memory. ",
		},
		"nothing known": {pod, pids, usage{}, ""},
	} {
		want := "The node was low on resource: " + string(c.of) + ". Threshold quantity: 100Mi, available: 90Mi. " + c.want
		if diff := cmp.Diff(want, message(c.pod, c.of, least, left, c.used)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAdmission(t *testing.T) {
	bestEffort := func(with func(*v1.Pod)) *v1.Pod {
		pod := podOf("a", 0, "0")
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{}
		with(pod)
		return pod
	}
	plain := bestEffort(func(*v1.Pod) {})
	memory, disk := v1.NodeMemoryPressure, v1.NodeDiskPressure
	const memoryOnly, diskOnly = "The node had condition: [MemoryPressure]. ", "The node had condition: [DiskPressure]. "
	for name, c := range map[string]struct {
		has  []v1.NodeConditionType
		pod  *v1.Pod
		want string
	}{
		"no pressure":                {nil, plain, ""},
		"memory, best effort":        {[]v1.NodeConditionType{memory}, plain, memoryOnly},
		"memory, burstable":          {[]v1.NodeConditionType{memory}, podOf("a", 0, "1"), ""},
		"disk, burstable":            {[]v1.NodeConditionType{disk}, podOf("a", 0, "1"), diskOnly},
		"both, burstable":            {[]v1.NodeConditionType{disk, memory}, podOf("a", 0, "1"), "The node had condition: [MemoryPressure DiskPressure]. "},
		"PID":                        {[]v1.NodeConditionType{v1.NodePIDPressure}, plain, "The node had condition: [PIDPressure]. "},
		"critical by priority":       {[]v1.NodeConditionType{disk, memory}, podOf("a", podmeta.SystemCriticalPriority, "1"), ""},
		"critical by class":          {[]v1.NodeConditionType{disk}, bestEffort(func(p *v1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }), ""},
		"mirror pod":                 {[]v1.NodeConditionType{disk}, bestEffort(func(p *v1.Pod) { p.Annotations = map[string]string{podmeta.MirrorAnnotation: "x"} }), ""},
		"tolerates memory":           {[]v1.NodeConditionType{memory}, tolerating(plain, v1.TaintNodeMemoryPressure), ""},
		"tolerates disk, not memory": {[]v1.NodeConditionType{memory}, tolerating(plain, v1.TaintNodeDiskPressure), memoryOnly},
		"disk can't be tolerated":    {[]v1.NodeConditionType{disk}, tolerating(plain, v1.TaintNodeDiskPressure), diskOnly},
		"memory and disk, tolerates memory": {
			[]v1.NodeConditionType{memory, disk}, tolerating(plain, v1.TaintNodeMemoryPressure), "The node had condition: [MemoryPressure DiskPressure]. ",
		},
	} {
		has := map[v1.NodeConditionType]bool{}
		for _, condition := range c.has {
			has[condition] = true
		}
		got, refused := admitUnder(has, c.pod)
		if got.Message != c.want || refused != (c.want != "") || refused && got.Reason != "Evicted" {
			t.Errorf("%s: %+v, %v; want %q", name, got, refused, c.want)
		}
	}
}

func tolerating(pod *v1.Pod, key string) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Tolerations = []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}
	return pod
}
