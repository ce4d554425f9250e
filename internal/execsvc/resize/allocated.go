package resize

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Held is the pod with the resources of another version of it.
func Held(pod, version *v1.Pod) *v1.Pod {
	if same(pod, version) {
		return pod
	}
	out := pod.DeepCopy()
	out.Spec.Resources = version.Spec.Resources.DeepCopy()
	before := resourcesOf(version)
	for _, c := range containers(out) {
		if r, ok := before[c.Name]; ok {
			c.Resources = *r.DeepCopy()
		}
	}
	return out
}

// Allocated is the pod with what it was allocated in an earlier life of this agent, as far as its last status tells: nil if there is none.
func Allocated(pod *v1.Pod, last *v1.PodStatus) *v1.Pod {
	if pod.Generation == 0 || last == nil || last.ObservedGeneration == pod.Generation && !has(last, v1.PodResizePending) {
		return pod
	}
	out := pod.DeepCopy()
	out.Generation = last.ObservedGeneration
	told := map[string]*v1.ContainerStatus{}
	for _, list := range [][]v1.ContainerStatus{last.InitContainerStatuses, last.ContainerStatuses} {
		for i := range list {
			told[list[i].Name] = &list[i]
		}
	}
	for _, c := range containers(out) {
		// The status has no resources of a container that was never made.
		if s := told[c.Name]; s != nil && s.Resources != nil {
			c.Resources.Requests, c.Resources.Limits = s.AllocatedResources.DeepCopy(), s.Resources.Limits.DeepCopy()
		}
	}
	return out
}

// InProgress tells whether the status says that containers are still to be given what the pod was allocated. It may be nil.
func InProgress(status *v1.PodStatus) bool {
	return status != nil && has(status, v1.PodResizeInProgress)
}

func has(status *v1.PodStatus, condition v1.PodConditionType) bool {
	for i := range status.Conditions {
		if status.Conditions[i].Type == condition {
			return true
		}
	}
	return false
}

// same tells whether two versions of a pod ask for the same.
func same(a, b *v1.Pod) bool {
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
