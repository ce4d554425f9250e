package world

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// sized returns a pod of an API server with these requests and equal limits.
func sized(generation int64, cpu, memory string, policy ...v1.ContainerResizePolicy) *v1.Pod {
	pod := apiPod("sized", cpu, memory)
	pod.UID, pod.Generation = types.UID("api-sized"), generation
	c := &pod.Spec.Containers[0]
	c.Resources.Limits = c.Resources.Requests.DeepCopy()
	c.ResizePolicy = policy
	return pod
}

// hasSize expects the pod to run with that size, and its container to have been restarted that often.
func hasSize(generation int64, cpu, memory string, restarts int32) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		s := statusOf(pod, "main")
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return fmt.Errorf("%s: %s: %s", c.Type, c.Reason, c.Message)
			}
		}
		if s == nil || s.State.Running == nil || s.RestartCount != restarts || pod.Status.ObservedGeneration != generation {
			return fmt.Errorf("generation %d, its container is %+v", pod.Status.ObservedGeneration, s)
		}
		for _, list := range []v1.ResourceList{s.Resources.Requests, s.Resources.Limits, s.AllocatedResources} {
			if !list.Cpu().Equal(resource.MustParse(cpu)) || !list.Memory().Equal(resource.MustParse(memory)) {
				return fmt.Errorf("it has %v, and is allocated %v", s.Resources, s.AllocatedResources)
			}
		}
		return nil
	}
}

// limits returns the memory limit and the CPU quota of the cgroup whose directory's name contains name.
func limits(t *testing.T, b *bench, name string) string {
	t.Helper()
	dirs, err := b.Node.CgroupDirs()
	check(t, err)
	var memory, quota string
	for _, dir := range dirs {
		if !strings.Contains(filepath.Base(dir), name) {
			continue
		}
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				memory = strings.TrimSpace(string(text))
			}
		}
		for _, file := range []string{"cpu.cfs_quota_us", "cpu.max"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				quota, _, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
			}
		}
	}
	return memory + " " + quota
}

// testResize: a running container of an API server's pod gets larger and smaller limits, in its cgroup and in the
// pod's.
func testResize(t *testing.T, b *bench, api *apiSource) {
	wantLimits := func(when, want string) {
		t.Helper()
		s := statusOf(b.pod("sized-"+b.Name), "main")
		_, id, _ := strings.Cut(s.ContainerID, "://")
		for _, name := range []string{id, "podapi-sized"} {
			if got := limits(t, b, name); got != want {
				t.Errorf("%s: the cgroup of %s has %q, want %q", when, name, got, want)
			}
		}
	}
	id := ""
	for i, step := range []struct{ cpu, memory, limits string }{
		{"100m", "64Mi", "67108864 10000"}, {"200m", "128Mi", "134217728 20000"}, {"50m", "32Mi", "33554432 5000"}, {"50m", "96Mi", "100663296 5000"},
	} {
		api.apply(sized(int64(i+1), step.cpu, step.memory))
		api.await("sized", hasSize(int64(i+1), step.cpu, step.memory, 0))
		wantLimits(step.cpu+" "+step.memory, step.limits)
		now := statusOf(b.pod("sized-"+b.Name), "main").ContainerID
		if id != "" && now != id {
			t.Errorf("container %s runs in place of %s", now, id)
		}
		id = now
	}
	// The memory limit isn't lowered below the current usage.
	api.apply(sized(5, "50m", "64Ki"))
	api.await("sized", func(pod *v1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError && strings.Contains(c.Message, "below current usage") {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", pod.Status.Conditions)
	})
	api.apply(sized(6, "50m", "96Mi"))
	api.await("sized", hasSize(6, "50m", "96Mi", 0))
	// More CPU than the node has.
	api.apply(sized(7, "1000", "96Mi"))
	api.await("sized", func(pod *v1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonDeferred {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", pod.Status.Conditions)
	})
	api.apply(sized(8, "50m", "96Mi"))
	api.await("sized", hasSize(8, "50m", "96Mi", 0))
	wantLimits("after what can't be", "100663296 5000")
	// A container whose policy requires a restart is restarted.
	restart := v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}
	api.apply(sized(9, "50m", "96Mi", restart))
	api.await("sized", hasSize(9, "50m", "96Mi", 0))
	api.apply(sized(10, "50m", "128Mi", restart))
	api.await("sized", hasSize(10, "50m", "128Mi", 1))
	wantLimits("restarted", "134217728 5000")
}
