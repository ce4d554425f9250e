package resize

import v1 "k8s.io/api/core/v1"

// Told is the pod with what it was allocated in an earlier life of this agent, as far as its last status tells: nil if there is none. It is
// for pods of which no Allocation was kept; what the pod has as a whole is then what it asks for.
func Told(pod *v1.Pod, last *v1.PodStatus) *v1.Pod {
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
