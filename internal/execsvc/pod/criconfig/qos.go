package criconfig

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// The kubelet's oom_score_adj values (pkg/kubelet/qos/policy.go).
const (
	guaranteedOOMScore = -997
	bestEffortOOMScore = 1000
)

// oomScoreAdj returns the container's oom_score_adj: the smaller the memory request of a burstable container, the
// sooner it is killed. memoryCapacity is in bytes; zero if it isn't known.
func oomScoreAdj(pod *v1.Pod, c *v1.Container, memoryCapacity int64) int64 {
	if podmeta.NodeCritical(pod) {
		return guaranteedOOMScore
	}
	switch podmeta.QOSClass(pod) {
	case v1.PodQOSGuaranteed:
		return guaranteedOOMScore
	case v1.PodQOSBestEffort:
		return bestEffortOOMScore
	}
	if memoryCapacity <= 0 {
		return bestEffortOOMScore - 1
	}
	score := 1000 - 1000*memoryRequest(pod, c)/memoryCapacity
	// It stays between the scores of the two other classes.
	return min(max(score, 1000+guaranteedOOMScore), bestEffortOOMScore-1)
}

// memoryRequest returns the container's memory request in bytes, with its part of the pod-level request. A sidecar is
// to be killed no sooner than the main containers that it serves, so its request counts as at least the least of
// theirs.
func memoryRequest(pod *v1.Pod, c *v1.Container) int64 {
	request := c.Resources.Requests.Memory().Value()
	isInit := slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
	if isInit && podmeta.IsSidecar(c) && len(pod.Spec.Containers) > 0 {
		least := int64(math.MaxInt64)
		for i := range pod.Spec.Containers {
			least = min(least, pod.Spec.Containers[i].Resources.Requests.Memory().Value())
		}
		request = max(request, least)
	}
	return request + sharedMemory(pod)
}

// sharedMemory returns each container's part, in bytes, of the pod-level memory request beyond the sum of the
// containers' (KEP-2837).
func sharedMemory(pod *v1.Pod) int64 {
	whole := amount(podLevel(pod).Requests, v1.ResourceMemory)
	containers := int64(len(pod.Spec.InitContainers) + len(pod.Spec.Containers))
	if whole.IsZero() || containers == 0 {
		return 0
	}
	own := podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{})
	return (whole.Value() - own.Memory().Value()) / containers
}
