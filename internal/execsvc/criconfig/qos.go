package criconfig

import (
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// QOSClass is the pod's quality of service by its containers' cpu and memory: Guaranteed if each has limits of both and the
// requests are equal to them, BestEffort if none says anything, else Burstable. A class that the API server gave stands.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	anything, guaranteed := false, true
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
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

// memoryRequest is the memory, in bytes, that the container asks for. A sidecar, which is to be killed no sooner than the main
// containers that it serves, counts as asking for as much as the least of them.
func memoryRequest(pod *v1.Pod, c *v1.Container) int64 {
	request := c.Resources.Requests.Memory().Value()
	isInit := slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
	if !isInit || ptr.Deref(c.RestartPolicy, "") != v1.ContainerRestartPolicyAlways || len(pod.Spec.Containers) == 0 {
		return request
	}
	least := int64(math.MaxInt64)
	for i := range pod.Spec.Containers {
		least = min(least, pod.Spec.Containers[i].Resources.Requests.Memory().Value())
	}
	return max(request, least)
}

// nodeCritical tells whether the pod is of the class system-node-critical. A static pod's priority is nobody's to compute, so
// its word is enough.
func nodeCritical(pod *v1.Pod) bool {
	if pod.Spec.PriorityClassName != nodeCriticalClass {
		return false
	}
	kind, _, _ := strings.Cut(pod.Annotations[ConfigSourceAnnotation], ":")
	static := kind != "" && kind != "api"
	return static || ptr.Deref(pod.Spec.Priority, 0) >= systemCriticalPriority
}

// amount is the quantity of that name, or zero.
func amount(list v1.ResourceList, name v1.ResourceName) resource.Quantity { return list[name] }
