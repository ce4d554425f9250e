package cridiff

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestIsResized: a resize is done if the status is of the last generation, and has all resources, or says that it can't be done.
func TestIsResized(t *testing.T) {
	want := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}}
	want.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	has := func(cpu string) *v1.ResourceRequirements {
		return &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
	}
	set := func(of v1.PodConditionType, reason string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Status.Conditions = []v1.PodCondition{{Type: of, Reason: reason}} }
	}
	deferred := func(message string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred, Message: message}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"all is so":         {func(*v1.Pod) {}, true},
		"an older status":   {func(p *v1.Pod) { p.Generation = 3 }, false},
		"in progress":       {set(v1.PodResizeInProgress, ""), false},
		"deferred":          {set(v1.PodResizePending, v1.PodReasonDeferred), false},
		"no room now":       {deferred("Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"), false},
		"beyond the node":   {deferred("Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000"), true},
		"infeasible":        {set(v1.PodResizePending, v1.PodReasonInfeasible), true},
		"not allocated":     {func(p *v1.Pod) { p.Status.ContainerStatuses[0].AllocatedResources = has("2").Requests }, false},
		"other resources":   {func(p *v1.Pod) { p.Status.ContainerStatuses[0].Resources = has("2") }, false},
		"unknown resources": {func(p *v1.Pod) { p.Status.ContainerStatuses[0].Resources = nil }, false},
		"it starts":         {func(p *v1.Pod) { p.Status.ContainerStatuses[0].State = soon }, false},
		"no status":         {func(p *v1.Pod) { p.Status.ContainerStatuses = nil }, false},
	} {
		of := &v1.Pod{Status: v1.PodStatus{ObservedGeneration: 2, ContainerStatuses: statuses(started)}}
		of.Generation = 2
		of.Status.ContainerStatuses[0].Resources, of.Status.ContainerStatuses[0].AllocatedResources = has("1"), has("1").Requests
		tc.change(of)
		if got := isResized(of, want); got != tc.want {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}

// TestTraceOfResizes: the trace has each request that sets resources, and each attempt of a container, under the UID of the
// pod that was given.
func TestTraceOfResizes(t *testing.T) {
	tracer := newTracer(strings.NewReplacer("made-by-server", "u1"), map[string][]string{"made-by-server": {"192.0.2.7"}}, false)
	tracer.attempts = true
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "made-by-server"}, Hostname: "192.0.2.7"}
	create := func(attempt uint32, id string) Call {
		config := &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt}}
		return callOf(t, "CreateContainer", "", &runtimeapi.CreateContainerRequest{SandboxConfig: sandbox, Config: config}, &runtimeapi.CreateContainerResponse{ContainerId: id})
	}
	update := func(shares int64) Call {
		return callOf(t, "UpdateContainerResources", "", &runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: "c0", Linux: &runtimeapi.LinuxContainerResources{CpuShares: shares},
		}, &runtimeapi.UpdateContainerResourcesResponse{})
	}
	stop := func(id string) Call {
		return callOf(t, "StopContainer", "", &runtimeapi.StopContainerRequest{ContainerId: id}, &runtimeapi.StopContainerResponse{})
	}
	for _, c := range []Call{create(0, "c0"), update(1), update(2), update(3), stop("c0"), stop("c0"), create(1, "c1"), stop("c1")} {
		if err := tracer.add(&c); err != nil {
			t.Fatal(err)
		}
	}
	const step = "UpdateContainerResources app"
	want := []string{"CreateContainer app", step + " (earlier 1)", step + " (earlier 2)", step, "StopContainer app", "CreateContainer app #1", "StopContainer app #1"}
	if got := tracer.order["u1"]; strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("the steps are %q; want %q", got, want)
	}
	for name, want := range map[string]string{step + " (earlier 1)": "1", step + " (earlier 2)": "2", step: "3"} {
		if got := tracer.trace["u1"][name]["linux.cpuShares"]; got != want {
			t.Errorf("%s has %q shares; want %s", name, got, want)
		}
	}
	if made := tracer.trace["u1"]["CreateContainer app #1"]; made["sandboxConfig.metadata.uid"] != "u1" || made["sandboxConfig.hostname"] != "POD-IP0" {
		t.Errorf("the container is made with %v", made)
	}
}
