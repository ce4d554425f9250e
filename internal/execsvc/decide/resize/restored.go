package resize

import v1 "k8s.io/api/core/v1"

// Restored returns the pod with its allocation from before a restart of the agent, as its last status has it; pod
// itself if the status has none. It is for pods without a stored Allocation. Pod-level resources are then those of the
// spec.
func Restored(pod *v1.Pod, last *v1.PodStatus) *v1.Pod {
	if pod.Generation == 0 || last == nil || last.ObservedGeneration == pod.Generation && !has(last, v1.PodResizePending) {
		return pod
	}
	out := pod.DeepCopy()
	out.Generation = last.ObservedGeneration
	reported := map[string]*v1.ContainerStatus{}
	for _, list := range [][]v1.ContainerStatus{last.InitContainerStatuses, last.ContainerStatuses} {
		for i := range list {
			reported[list[i].Name] = &list[i]
		}
	}
	for _, c := range containers(out) {
		// The status has no resources of a container that was never created.
		if s := reported[c.Name]; s != nil && s.Resources != nil {
			c.Resources.Requests, c.Resources.Limits = s.AllocatedResources.DeepCopy(), s.Resources.Limits.DeepCopy()
		}
	}
	return out
}

// InProgress reports whether the status says that containers don't have the pod's allocation yet. The status may be
// nil.
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
