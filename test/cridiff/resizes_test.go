//go:build kubelet

package cridiff

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestResizes resizes running pods of an API server in place.
func TestResizes(t *testing.T) {
	pods, resized := resizes()
	table := comparePods(t, Site{Resized: resized}, pods)
	if table.Ran != len(pods) {
		t.Errorf("both ran %d of %d pods", table.Ran, len(pods))
	}
	wantApplied(t, table, resizeRules)
	for method, want := range map[string]int{"UpdateContainerResources": 6, "UpdatePodSandboxResources": 7} {
		if table.ByMethod[method] < want {
			t.Errorf("of %d pods, %d %s were compared", len(pods), table.ByMethod[method], method)
		}
	}
}

// resizes returns pods, and by UID what they are resized to.
func resizes() (pods []*v1.Pod, resized map[types.UID]*v1.Pod) {
	resized = map[types.UID]*v1.Pod{}
	add := func(name string, from, to v1.ResourceRequirements, changes ...func(*v1.Pod)) {
		pod := life(name)
		for _, change := range changes {
			change(pod)
		}
		last := len(pod.Spec.Containers) - 1
		pod.Spec.AutomountServiceAccountToken = ptr.To(false)
		pod.Spec.Containers[last].Resources = from
		after := pod.DeepCopy()
		after.Spec.Containers[last].Resources = to
		pods, resized[pod.UID] = append(pods, pod), after
	}
	add("cpu-raised", resources("50m", "100m", "64Mi", "64Mi"), resources("100m", "200m", "64Mi", "64Mi"))
	add("cpu-lowered", resources("100m", "200m", "64Mi", "64Mi"), resources("50m", "100m", "64Mi", "64Mi"))
	add("memory-raised", resources("50m", "100m", "64Mi", "128Mi"), resources("50m", "100m", "64Mi", "256Mi"))
	add("memory-lowered", resources("50m", "100m", "64Mi", "256Mi"), resources("50m", "100m", "64Mi", "128Mi"))
	add("memory-restarts", resources("50m", "100m", "64Mi", "128Mi"), resources("50m", "100m", "64Mi", "256Mi"), func(p *v1.Pod) {
		p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	})
	add("one-of-two", resources("50m", "100m", "64Mi", "128Mi"), resources("80m", "120m", "64Mi", "128Mi"), func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = resources("20m", "30m", "64Mi", "64Mi")
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "second", Image: "second:1"})
	})
	add("cpu-and-memory", resources("50m", "100m", "64Mi", "128Mi"), resources("100m", "200m", "128Mi", "256Mi"))
	add("limits-added", resources("50m", "", "64Mi", ""), resources("50m", "100m", "64Mi", "128Mi"))
	add("guaranteed", resources("50m", "50m", "64Mi", "64Mi"), resources("80m", "80m", "128Mi", "128Mi"))
	add("memory-request-raised", resources("50m", "100m", "64Mi", "128Mi"), resources("50m", "100m", "96Mi", "128Mi"))
	add("requests-only", resources("50m", "", "64Mi", ""), resources("80m", "", "96Mi", ""))
	add("swapped", resources("50m", "100m", "64Mi", "128Mi"), resources("80m", "120m", "96Mi", "192Mi"), func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = resources("80m", "120m", "96Mi", "192Mi")
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "second", Image: "second:1"})
	})
	resized["swapped"].Spec.Containers[0].Resources = resources("50m", "100m", "64Mi", "128Mi")
	add("sidecar", resources("50m", "100m", "64Mi", "128Mi"), resources("50m", "100m", "64Mi", "128Mi"), func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{
			Name: "sidecar", Image: "sidecar:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), Resources: resources("20m", "30m", "64Mi", "64Mi"),
		}}
	})
	resized["sidecar"].Spec.InitContainers[0].Resources = resources("40m", "60m", "64Mi", "128Mi")
	add("infeasible", resources("50m", "", "64Mi", ""), resources("1000", "", "64Mi", ""))
	return pods, resized
}

// resources returns requests and limits. An empty one isn't set.
func resources(cpu, cpuLimit, memory, memoryLimit string) v1.ResourceRequirements {
	list := func(cpu, memory string) v1.ResourceList {
		list := v1.ResourceList{}
		for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
			if text != "" {
				list[name] = resource.MustParse(text)
			}
		}
		return list
	}
	return v1.ResourceRequirements{Requests: list(cpu, memory), Limits: list(cpuLimit, memoryLimit)}
}
