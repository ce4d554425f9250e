package criconfig

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// The kubelet's oom_score_adj values (pkg/kubelet/qos/policy.go).
const (
	guaranteedOOMScore = -997
	bestEffortOOMScore = 1000
)

// nodeCriticalClass is the priority class of the pods that a node can't do without, systemCriticalPriority the least priority of
// such classes.
const (
	nodeCriticalClass      = "system-node-critical"
	systemCriticalPriority = 2_000_000_000
)

// QOSClass is the pod's quality of service by the cpu and memory that it asks for as a whole, or else by those of its containers:
// Guaranteed if there are limits of both everywhere and the requests are equal to them, BestEffort if nothing is said, else Burstable. A
// class that the API server gave stands.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	anything, guaranteed := false, true
	for _, r := range classified(pod) {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			limit := amount(r.Limits, name)
			request, requested := r.Requests[name]
			if !request.IsZero() || !limit.IsZero() {
				anything = true
			}
			// A request that isn't there is defaulted to the limit.
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

// classified are the requirements that tell the pod's class.
func classified(pod *v1.Pod) []v1.ResourceRequirements {
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

// oomScoreAdj ranks the container for the kernel's OOM killer: a burstable one by how little of the node's memory it asks for.
// memoryCapacity is in bytes; zero if it isn't known.
func oomScoreAdj(pod *v1.Pod, c *v1.Container, memoryCapacity int64) int64 {
	if nodeCritical(pod) {
		return guaranteedOOMScore
	}
	switch QOSClass(pod) {
	case v1.PodQOSGuaranteed:
		return guaranteedOOMScore
	case v1.PodQOSBestEffort:
		return bestEffortOOMScore
	}
	if memoryCapacity <= 0 {
		return bestEffortOOMScore - 1
	}
	score := 1000 - 1000*memoryRequest(pod, c)/memoryCapacity
	// It stays between the two other classes.
	return min(max(score, 1000+guaranteedOOMScore), bestEffortOOMScore-1)
}

// memoryRequest is the memory, in bytes, that the container asks for, with its part of what only the pod as a whole asks for. A sidecar,
// which is to be killed no sooner than the main containers that it serves, counts as asking for as much as the least of them.
func memoryRequest(pod *v1.Pod, c *v1.Container) int64 {
	request := c.Resources.Requests.Memory().Value()
	isInit := slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
	if isInit && ptr.Deref(c.RestartPolicy, "") == v1.ContainerRestartPolicyAlways && len(pod.Spec.Containers) > 0 {
		least := int64(math.MaxInt64)
		for i := range pod.Spec.Containers {
			least = min(least, pod.Spec.Containers[i].Resources.Requests.Memory().Value())
		}
		request = max(request, least)
	}
	return request + sharedMemory(pod)
}

// sharedMemory is each container's part, in bytes, of the memory that the pod asks for as a whole beyond what its containers do
// (KEP-2837).
func sharedMemory(pod *v1.Pod) int64 {
	whole := amount(podLevel(pod).Requests, v1.ResourceMemory)
	containers := int64(len(pod.Spec.InitContainers) + len(pod.Spec.Containers))
	if whole.IsZero() || containers == 0 {
		return 0
	}
	own := podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{})
	return (whole.Value() - own.Memory().Value()) / containers
}

// nodeCritical tells whether the pod is of the class system-node-critical.
func nodeCritical(pod *v1.Pod) bool {
	return pod.Spec.PriorityClassName == nodeCriticalClass && critical(pod)
}

// critical tells whether the pod is one that the cluster or the node can't do without. A static pod's priority is nobody's to compute, so
// each of them is.
func critical(pod *v1.Pod) bool {
	return Static(pod) || ptr.Deref(pod.Spec.Priority, 0) >= systemCriticalPriority
}
