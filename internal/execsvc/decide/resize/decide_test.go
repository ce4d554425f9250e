package resize

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
)

// amounts are requests and limits of "cpu memory" each; "-" is none.
func amounts(cpu, memory string) v1.ResourceRequirements {
	list := v1.ResourceList{}
	for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if text != "-" {
			list[name] = resource.MustParse(text)
		}
	}
	return v1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

// podOf is a pod of that generation with a main container "a".
func podOf(uid types.UID, generation int64, r v1.ResourceRequirements) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: string(uid), Generation: generation},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "img", Resources: r}}},
	}
}

func TestDecide(t *testing.T) {
	node := admit.Node{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1Gi")}}
	had := amounts("1", "256Mi")
	for name, test := range map[string]struct {
		asked      v1.ResourceRequirements
		generation int64
		other      v1.ResourceRequirements
		change     func(pod *v1.Pod)
		swaps      bool
		pressed    bool
		want       Decision
		// held is set if the pod keeps what it has.
		held bool
	}{
		"nothing asked":          {asked: had, generation: 2},
		"more, and there is":     {asked: amounts("2", "256Mi"), generation: 2, want: Decision{Begun: true}},
		"less":                   {asked: amounts("1", "128Mi"), generation: 2, want: Decision{Begun: true}},
		"the whole node":         {asked: amounts("4", "1Gi"), generation: 2, want: Decision{Begun: true}},
		"beside another pod":     {asked: amounts("2", "256Mi"), generation: 2, other: amounts("2", "-"), want: Decision{Begun: true}},
		"static":                 {asked: amounts("9", "256Mi")},
		"swap, restarted":        {asked: amounts("1", "512Mi"), generation: 2, swaps: true, change: restartFor(v1.ResourceMemory), want: Decision{Begun: true}},
		"swap, only cpu changes": {asked: amounts("2", "256Mi"), generation: 2, swaps: true, want: Decision{Begun: true}},
		"swap": {asked: amounts("1", "512Mi"), generation: 2, swaps: true, held: true, want: Decision{
			Pending: v1.PodReasonInfeasible, Message: "In-place resize of containers with swap is not supported."}},
		"swap, restarted for cpu": {asked: amounts("1", "512Mi"), generation: 2, swaps: true, change: restartFor(v1.ResourceCPU), held: true, want: Decision{
			Pending: v1.PodReasonInfeasible, Message: "In-place resize of containers with swap is not supported."}},
		"no room now": {asked: amounts("3", "256Mi"), generation: 2, other: amounts("2", "-"), held: true, want: Decision{
			Pending: v1.PodReasonDeferred, Message: "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"}},
		"no room now, critical": {
			asked: amounts("3", "256Mi"), generation: 2, other: amounts("2", "-"), held: true,
			change: func(pod *v1.Pod) { pod.Spec.Priority = ptr.To[int32](2_000_001_000) },
			want: Decision{
				Pending: v1.PodReasonDeferred, Message: "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"},
		},
		"more cpu than there is": {asked: amounts("5", "256Mi"), generation: 2, held: true, want: Decision{
			Pending: v1.PodReasonDeferred, Message: "Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000"}},
		"more memory than there is": {asked: amounts("1", "2Gi"), generation: 2, other: amounts("3", "-"), held: true, want: Decision{
			Pending: v1.PodReasonDeferred, Message: "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"}},
		"more, under pressure": {asked: amounts("2", "256Mi"), generation: 2, pressed: true, held: true, want: Decision{
			Pending: v1.PodReasonDeferred, Message: "The node had condition: [DiskPressure]. "}},
		"less, under pressure":    {asked: amounts("1", "128Mi"), generation: 2, pressed: true, want: Decision{Begun: true}},
		"nothing, under pressure": {asked: had, generation: 2, pressed: true},
		"swap, under pressure": {asked: amounts("1", "512Mi"), generation: 2, swaps: true, pressed: true, held: true, want: Decision{
			Pending: v1.PodReasonInfeasible, Message: "In-place resize of containers with swap is not supported."}},
	} {
		t.Run(name, func(t *testing.T) {
			pod, before := podOf("p", test.generation, test.asked), podOf("p", min(test.generation, 1), had)
			if test.change != nil {
				test.change(pod)
				test.change(before)
			}
			got := Decide(Input{
				Pod: pod, Allocated: before, Node: node, Others: []*v1.Pod{podOf("o", 1, test.other)},
				Swaps: func(*v1.Pod, *v1.Container) bool { return test.swaps },
				Pressure: func(*v1.Pod) (admit.Rejection, bool) {
					return admit.Rejection{Reason: admit.Evicted, Message: "The node had condition: [DiskPressure]. "}, test.pressed
				},
			})
			if got.Pending != test.want.Pending || got.Message != test.want.Message || got.Begun != test.want.Begun {
				t.Errorf("%q %q, begun %v; want %q %q, %v", got.Pending, got.Message, got.Begun, test.want.Pending, test.want.Message, test.want.Begun)
			}
			want := test.asked
			if test.held {
				want = had
			}
			if !Same(got.Pod, podOf("p", 0, want)) || got.Pod.Generation != test.generation {
				t.Errorf("it runs with %v as generation %d; want %v", got.Pod.Spec.Containers[0].Resources, got.Pod.Generation, want)
			}
			if !Same(pod, podOf("p", 0, test.asked)) {
				t.Error("the desired pod was changed")
			}
		})
	}
}

func restartFor(name v1.ResourceName) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: v1.RestartContainer}}
	}
}

// Without a stored allocation, the pod's status has it.
func TestAllocationFromStatus(t *testing.T) {
	had, asked := amounts("1", "256Mi"), amounts("2", "512Mi")
	reported := []v1.ContainerStatus{{Name: "a", Resources: &had, AllocatedResources: had.Requests}}
	pending := []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue}}
	for name, test := range map[string]struct {
		generation int64
		last       *v1.PodStatus
		want       v1.ResourceRequirements
	}{
		"never seen":             {2, nil, asked},
		"decided and allocated":  {2, &v1.PodStatus{ObservedGeneration: 2, ContainerStatuses: reported}, asked},
		"decided and pending":    {2, &v1.PodStatus{ObservedGeneration: 2, ContainerStatuses: reported, Conditions: pending}, had},
		"not decided":            {3, &v1.PodStatus{ObservedGeneration: 2, ContainerStatuses: reported}, had},
		"pending, never started": {2, &v1.PodStatus{ObservedGeneration: 2, Conditions: pending}, asked},
		"static":                 {0, &v1.PodStatus{ContainerStatuses: reported, Conditions: pending}, asked},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf("p", test.generation, asked)
			got := Restored(pod, test.last)
			if !Same(got, podOf("p", 0, test.want)) {
				t.Errorf("allocated %v, want %v", got.Spec.Containers[0].Resources, test.want)
			}
			if test.last != nil && got.Generation != test.last.ObservedGeneration {
				t.Errorf("generation %d; want the one that was decided on", got.Generation)
			}
			if !Same(pod, podOf("p", 0, asked)) {
				t.Error("the desired pod was changed")
			}
		})
	}
}

// Resources of the whole pod are held like those of its containers.
func TestHeld(t *testing.T) {
	whole := amounts("3", "1Gi")
	before, pod := podOf("p", 1, amounts("1", "-")), podOf("p", 2, amounts("1", "-"))
	before.Spec.Resources = &whole
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "new"})
	got := Held(pod, before)
	if got.Spec.Resources == nil || got.Spec.Resources.Limits.Cpu().Value() != 3 || got.Generation != 2 || len(got.Spec.Containers) != 2 {
		t.Errorf("%+v", got.Spec)
	}
	if Held(got, got.DeepCopy()) != got {
		t.Error("a pod that is as it should be was copied")
	}
}

func TestMessage(t *testing.T) {
	pod := podOf("p", 2, amounts("1", "-"))
	pod.Spec.InitContainers = []v1.Container{{Name: "i"}}
	whole := amounts("2", "-")
	pod.Spec.Resources = &whole
	const want = `Pod resize error: {"resources":{"limits":{"cpu":"2"},"requests":{"cpu":"2"}},"initContainers":[{"name":"i","resources":{}}],` +
		`"containers":[{"name":"a","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}],"generation":2,"error":"no"}`
	if got := Message("Pod resize error", pod, 2, "no"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
