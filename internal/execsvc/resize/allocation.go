package resize

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Allocation is what a pod was allocated, as it is remembered over a restart.
type Allocation struct {
	// Generation is that of the spec that was last decided upon.
	Generation int64 `json:"generation"`
	// Pod is what the pod has as a whole. Nil: nothing is said of it.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
	// Containers are the init and main containers, by name.
	Containers map[string]v1.ResourceRequirements `json:"containers"`
	// Resizing is set while containers that run may still have what was allocated before.
	Resizing bool `json:"resizing,omitempty"`
}

// AllocationOf is what the pod asks for, as allocated.
func AllocationOf(pod *v1.Pod) Allocation {
	a := Allocation{Generation: pod.Generation, Pod: pod.Spec.Resources.DeepCopy(), Containers: map[string]v1.ResourceRequirements{}}
	for _, c := range containers(pod) {
		a.Containers[c.Name] = *c.Resources.DeepCopy()
	}
	return a
}

// Of is the pod with what it was allocated, and with the generation that was decided upon. A container that came since has what it asks for.
func (a Allocation) Of(pod *v1.Pod) *v1.Pod {
	out := pod.DeepCopy()
	out.Generation, out.Spec.Resources = a.Generation, a.Pod.DeepCopy()
	for _, c := range containers(out) {
		if r, ok := a.Containers[c.Name]; ok {
			c.Resources = *r.DeepCopy()
		}
	}
	return out
}

// Held is the pod with the resources of another version of it.
func Held(pod, version *v1.Pod) *v1.Pod {
	if Same(pod, version) {
		return pod
	}
	out := AllocationOf(version).Of(pod)
	out.Generation = pod.Generation
	return out
}

// Same tells whether two versions of a pod ask for the same.
func Same(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec.Resources, b.Spec.Resources) && equality.Semantic.DeepEqual(resourcesOf(a), resourcesOf(b))
}

func resourcesOf(pod *v1.Pod) map[string]*v1.ResourceRequirements {
	out := map[string]*v1.ResourceRequirements{}
	for _, c := range containers(pod) {
		out[c.Name] = &c.Resources
	}
	return out
}

// containers are the pod's init and main containers.
func containers(pod *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range pod.Spec.InitContainers {
		out = append(out, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	return out
}
