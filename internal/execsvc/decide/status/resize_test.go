package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// Both conditions of a resize, step by step: the first status of each step is the second one's Previous.
func TestResizeConditions(t *testing.T) {
	pod := podOf(always, "a")
	var previous *v1.PodStatus
	now := t0
	type want struct {
		reason, message string
		generation      int64
		since           time.Time
	}
	for _, step := range []struct {
		name       string
		generation int64
		resize     *Resize
		pending    *want
		progress   *want
	}{
		{"nobody has looked", 1, nil, nil, nil},
		{"nothing", 1, &Resize{}, nil, nil},
		{"no room", 2, &Resize{Pending: "Deferred", Message: "cpu"}, &want{"Deferred", "cpu", 2, t0.Add(2 * time.Hour)}, nil},
		{"still none", 3, &Resize{Pending: "Deferred", Message: "memory"}, &want{"Deferred", "memory", 3, t0.Add(2 * time.Hour)}, nil},
		{"nobody has looked again", 3, nil, &want{"Deferred", "memory", 3, t0.Add(2 * time.Hour)}, nil},
		{"far too much", 4, &Resize{Pending: "Infeasible"}, &want{"Infeasible", "", 4, t0.Add(5 * time.Hour)}, nil},
		{"begun", 5, &Resize{Begun: true, InProgress: true}, nil, &want{"", "", 5, t0.Add(6 * time.Hour)}},
		{"fails", 5, &Resize{InProgress: true, Error: "busy"}, nil, &want{"Error", "busy", 5, t0.Add(7 * time.Hour)}},
		{"is tried again", 5, &Resize{InProgress: true}, nil, &want{"Error", "busy", 5, t0.Add(7 * time.Hour)}},
		{"another wish", 6, &Resize{InProgress: true, Pending: "Deferred"},
			&want{"Deferred", "", 6, t0.Add(9 * time.Hour)}, &want{"Error", "busy", 5, t0.Add(7 * time.Hour)}},
		{"which is granted", 6, &Resize{Begun: true, InProgress: true}, nil, &want{"", "", 6, t0.Add(10 * time.Hour)}},
		{"done", 6, &Resize{}, nil, nil},
	} {
		input := in(pod, has(running("a")))
		pod.Generation, input.Previous, input.Resize, input.Now = step.generation, previous, step.resize, now
		status := Generate(input)
		for kind, w := range map[v1.PodConditionType]*want{v1.PodResizePending: step.pending, v1.PodResizeInProgress: step.progress} {
			var expected *v1.PodCondition
			if w != nil {
				expected = &v1.PodCondition{
					Type: kind, Status: v1.ConditionTrue, Reason: w.reason, Message: w.message, ObservedGeneration: w.generation,
					LastTransitionTime: metav1.NewTime(w.since).Rfc3339Copy(),
				}
			}
			if diff := cmp.Diff(expected, condition(status.Conditions, kind)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", step.name, kind, diff)
			}
		}
		previous, now = &status, now.Add(time.Hour)
	}
	// The API server's copy of them doesn't count, and an ended pod isn't resized any more.
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue}}
	input := in(pod, has(running("a")))
	input.Previous, input.Resize = previous, &Resize{}
	if status := Generate(input); condition(status.Conditions, v1.PodResizePending) != nil {
		t.Error("a condition of the API server's copy was passed on")
	}
	input.Failure, input.Resize = &Failure{Reason: "Evicted"}, &Resize{InProgress: true, Pending: "Deferred"}
	status := Generate(input)
	if condition(status.Conditions, v1.PodResizePending) != nil || condition(status.Conditions, v1.PodResizeInProgress) != nil {
		t.Errorf("conditions of a pod that has ended: %v", status.Conditions)
	}
}

func TestActualResources(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		out := v1.ResourceList{}
		if cpu != "" {
			out[v1.ResourceCPU] = *quantity(cpu)
		}
		if memory != "" {
			out[v1.ResourceMemory] = *quantity(memory)
		}
		return out
	}
	for name, test := range map[string]struct {
		requests, limits         v1.ResourceList
		has                      observed.Resources
		wantRequests, wantLimits v1.ResourceList
	}{
		"as allocated": {list("100m", "1Gi"), list("1", "1Gi"),
			observed.Resources{CPUShares: 102, CPUQuota: 100_000, CPUPeriod: 100_000, MemoryLimit: 1 << 30}, list("100m", "1Gi"), list("1", "1Gi")},
		"not yet": {list("2", "2Gi"), list("2", "2Gi"),
			observed.Resources{CPUShares: 102, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryLimit: 1 << 30}, list("100m", "2Gi"), list("500m", "1Gi")},
		"less than the kernel knows": {list("1m", ""), list("1m", ""),
			observed.Resources{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100_000}, list("1m", ""), list("1m", "")},
		"limits are still to come": {list("1", ""), list("1", "1Gi"),
			observed.Resources{CPUShares: 1024, CPUQuota: -1, CPUPeriod: 100_000}, list("1", ""), list("", "")},
		"quotas are off":      {nil, list("1", ""), observed.Resources{CPUShares: 1024}, nil, list("1", "")},
		"nothing is told":     {list("1", ""), list("1", ""), observed.Resources{}, list("1", ""), list("1", "")},
		"only of what is set": {nil, nil, observed.Resources{CPUShares: 2, MemoryLimit: 1 << 30}, nil, nil},
	} {
		pod := podOf(always, "a")
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: test.requests, Limits: test.limits}
		c := running("a")
		c.Resources = &test.has
		s := Generate(in(pod, has(c))).ContainerStatuses[0]
		if diff := cmp.Diff(&v1.ResourceRequirements{Requests: test.wantRequests, Limits: test.wantLimits}, s.Resources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(test.requests, s.AllocatedResources); diff != "" {
			t.Errorf("%s: allocated (-want +got):\n%s", name, diff)
		}
		c.State = observed.Exited
		if s := Generate(in(pod, has(c))).ContainerStatuses[0]; !cmp.Equal(s.Resources.Limits, test.limits) {
			t.Errorf("%s: one that has ended has %v; want what is allocated", name, s.Resources)
		}
	}
}

// The status has the resources of the whole pod, and during a change the previous ones. Of a pod that runs, they are those
// of its cgroup.
func TestPodResources(t *testing.T) {
	list := func(cpu string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: *quantity(cpu)} }
	pod := podOf(always, "a")
	pod.Spec.Containers[0].Resources.Requests = list("100m")
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: *quantity("200m"), v1.ResourceEphemeralStorage: *quantity("1Gi")}
	other := podOf(always, "b").Spec.Containers[0]
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	var status v1.PodStatus
	for _, test := range []struct {
		name   string
		has    *observed.Pod
		limits v1.ResourceList
	}{
		{"nothing runs", nil, pod.Spec.Containers[0].Resources.Limits},
		{"not all containers have a limit", has(running("b"), running("a")), v1.ResourceList{}},
	} {
		status = Generate(in(pod, test.has))
		if diff := cmp.Diff(&v1.ResourceRequirements{Requests: list("100m"), Limits: test.limits}, status.Resources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if !cmp.Equal(status.AllocatedResources, list("100m")) {
			t.Errorf("%s: allocated is %v", test.name, status.AllocatedResources)
		}
	}
	pod.Spec.Containers = pod.Spec.Containers[:1]
	if status = Generate(in(pod, has(running("a")))); !cmp.Equal(status.Resources.Limits, list("200m")) {
		t.Errorf("if all containers have limits they are %v", status.Resources.Limits)
	}
	step := func(name, requests, limits string, resize *Resize, wantAllocated, wantRequests, wantLimits string) {
		t.Helper()
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
		input := in(pod, has(running("a")))
		previous := status
		input.Previous, input.Resize = &previous, resize
		status = Generate(input)
		if diff := cmp.Diff(&v1.ResourceRequirements{Requests: list(wantRequests), Limits: list(wantLimits)}, status.Resources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(list(wantAllocated), status.AllocatedResources); diff != "" {
			t.Errorf("%s: allocated (-want +got):\n%s", name, diff)
		}
	}
	step("at first", "1", "2", nil, "1", "1", "2")
	step("begun", "2", "3", &Resize{Begun: true, InProgress: true}, "2", "1", "2")
	step("nobody has looked", "2", "3", nil, "2", "1", "2")
	step("fails", "2", "3", &Resize{InProgress: true, Error: "busy"}, "2", "1", "2")
	step("done", "2", "3", &Resize{}, "2", "2", "3")
	// Huge pages of the pod as a whole are shown, and those of a container alone aren't.
	pages := func(cpu, size, pages string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: *quantity(cpu), v1.ResourceName("hugepages-" + size): *quantity(pages)}
	}
	huge := podOf(always, "a")
	huge.Spec.Resources = &v1.ResourceRequirements{Requests: pages("1", "2Mi", "8Mi"), Limits: pages("2", "2Mi", "8Mi")}
	huge.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: pages("1", "1Gi", "1Gi"), Limits: pages("1", "1Gi", "1Gi")}
	if diff := cmp.Diff(huge.Spec.Resources, Generate(in(huge, has(running("a")))).Resources); diff != "" {
		t.Errorf("huge pages (-want +got):\n%s", diff)
	}
	input := in(pod, nil)
	input.Failure = &Failure{Reason: "OutOfcpu"}
	if rejected := Generate(input); rejected.Resources != nil || rejected.AllocatedResources != nil {
		t.Errorf("a pod that was rejected has %v of allocated %v", rejected.Resources, rejected.AllocatedResources)
	}
}
