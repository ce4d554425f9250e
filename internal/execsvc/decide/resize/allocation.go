package resize

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Allocation has the resources that a pod was allocated. It is stored for the next start of podexecd.
type Allocation struct {
	// Generation is that of the last spec that was decided on.
	Generation int64 `json:"generation"`
	// Pod has the pod-level resources. Nil: there are none.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
	// Containers has the init and main containers, by name.
	Containers map[string]v1.ResourceRequirements `json:"containers"`
	// Resizing is set while running containers may still have the previous resources.
	Resizing bool `json:"resizing,omitempty"`
}

// AllocationOf returns the resources of the pod's spec as its allocation.
func AllocationOf(pod *v1.Pod) Allocation {
	a := Allocation{Generation: pod.Generation, Pod: pod.Spec.Resources.DeepCopy(), Containers: map[string]v1.ResourceRequirements{}}
	for _, c := range containers(pod) {
		a.Containers[c.Name] = *c.Resources.DeepCopy()
	}
	return a
}

// Of returns the pod with its allocated resources, and with the generation that was decided on. A container that was
// added since has the resources of its spec.
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

// Held returns the pod with the resources of another version of it.
func Held(pod, version *v1.Pod) *v1.Pod {
	if Same(pod, version) {
		return pod
	}
	out := AllocationOf(version).Of(pod)
	out.Generation = pod.Generation
	return out
}

// Same reports whether two versions of a pod have the same resources.
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

// containers returns the pod's init and main containers.
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
