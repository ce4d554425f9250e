package world

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// wholePod returns a pod of an API server with these requests and limits at the pod level. Its container main has no
// resources, and its container bounded has its own limit.
func wholePod(generation int64, cpu, memory string) *v1.Pod {
	pod := apiPod("whole", "0", "0")
	pod.UID, pod.Generation = types.UID("api-whole"), generation
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	bounded := pod.Spec.Containers[0].DeepCopy()
	bounded.Name = "bounded"
	bounded.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Mi")}
	bounded.Resources.Requests = bounded.Resources.Limits.DeepCopy()
	pod.Spec.Containers = append(pod.Spec.Containers, *bounded)
	return pod
}

// isWhole expects the pod to have want's resources at the pod level, and its containers to run without a restart.
func isWhole(want *v1.Pod) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return fmt.Errorf("%s: %s: %s", c.Type, c.Reason, c.Message)
			}
		}
		for _, name := range []string{"main", "bounded"} {
			if s := statusOf(pod, name); s == nil || s.State.Running == nil || s.RestartCount != 0 {
				return fmt.Errorf("container %s is %+v", name, s)
			}
		}
		s := pod.Status
		if s.Resources == nil || s.ObservedGeneration != want.Generation {
			return fmt.Errorf("generation %d has %v", s.ObservedGeneration, s.Resources)
		}
		asked := want.Spec.Resources.Requests
		for _, list := range []v1.ResourceList{s.Resources.Requests, s.Resources.Limits, s.AllocatedResources} {
			if !list.Cpu().Equal(*asked.Cpu()) || !list.Memory().Equal(*asked.Memory()) {
				return fmt.Errorf("it has %v, and is allocated %v", s.Resources, s.AllocatedResources)
			}
		}
		return nil
	}
}

// TestPodResize: a running pod of an API server gets larger and smaller resources at the pod level, in its cgroup and
// in the cgroups of its containers without their own limits.
func TestPodResize(t *testing.T) {
	t.Parallel()
	onOwnBench(t, containerds, nil, func(t *testing.T, b *bench) {
		api := newAPISource(t, b)
		ids := map[string]string{}
		for i, step := range []struct{ cpu, memory, whole, bounded string }{
			{"100m", "64Mi", "67108864 10000", "16777216 10000"},
			{"200m", "128Mi", "134217728 20000", "16777216 20000"},
			{"50m", "32Mi", "33554432 5000", "16777216 5000"},
		} {
			pod := wholePod(int64(i+1), step.cpu, step.memory)
			api.apply(pod)
			api.await("whole", isWhole(pod))
			now := b.pod("whole-" + b.Name)
			wantLimits := func(cgroup, want string) {
				t.Helper()
				if got := limits(t, b, cgroup); got != want {
					t.Errorf("%s %s: the cgroup of %s has %q, want %q", step.cpu, step.memory, cgroup, got, want)
				}
			}
			wantLimits("podapi-whole", step.whole)
			for name, want := range map[string]string{"main": step.whole, "bounded": step.bounded} {
				_, id, _ := strings.Cut(statusOf(now, name).ContainerID, "://")
				wantLimits(id, want)
				if before := ids[name]; before != "" && before != id {
					t.Errorf("container %s runs as %s in place of %s", name, id, before)
				}
				ids[name] = id
			}
		}
		// A request beyond the node's capacity changes nothing.
		pod := wholePod(4, "1000", "32Mi")
		api.apply(pod)
		api.await("whole", func(pod *v1.Pod) error {
			for _, c := range pod.Status.Conditions {
				if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonDeferred && pod.Status.AllocatedResources.Cpu().MilliValue() == 50 {
					return nil
				}
			}
			return fmt.Errorf("it is allocated %v, with the conditions %+v", pod.Status.AllocatedResources, pod.Status.Conditions)
		})
		if got, want := limits(t, b, "podapi-whole"), "33554432 5000"; got != want {
			t.Errorf("after what can't be, the pod's cgroup has %q, want %q", got, want)
		}
	})
}
