package podmeta

import (
	v1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
)

// QOSClass returns the pod's QoS class. A class that the API server set stands. Otherwise the CPU and memory of the pod
// as a whole decide, or else those of its containers: Guaranteed if all have limits of both and requests equal to them,
// BestEffort if none has a request or a limit, else Burstable.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	anything, guaranteed := false, true
	for _, r := range classifiedResources(pod) {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			limit := r.Limits[name]
			request, requested := r.Requests[name]
			if !request.IsZero() || !limit.IsZero() {
				anything = true
			}
			// A request that isn't set defaults to the limit.
			if limit.IsZero() || (requested && request.Cmp(limit) != 0) {
				guaranteed = false
			}
		}
	}
	switch {
	case !anything:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

// classifiedResources returns the resource requirements that determine the pod's QoS class.
func classifiedResources(pod *v1.Pod) []v1.ResourceRequirements {
	if podresource.IsPodLevelResourcesSet(pod) {
		return []v1.ResourceRequirements{*pod.Spec.Resources}
	}
	var all []v1.ResourceRequirements
	for i := range pod.Spec.InitContainers {
		all = append(all, pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		all = append(all, pod.Spec.Containers[i].Resources)
	}
	return all
}
