package podmeta

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	// SystemCriticalPriority is the least priority of the two system classes (scheduling.SystemCriticalPriority).
	SystemCriticalPriority = 2_000_000_000
	nodeCriticalClass      = "system-node-critical"
	clusterCriticalClass   = "system-cluster-critical"
)

// Preempts reports whether other pods are preempted to admit this one: the kubelet's IsCriticalPod. No API server
// computes the priority of a static pod, so each static pod preempts. The same pods get no swap. A pod that a caller wrote
// preempts only if it has a system priority or names a system class: its author may be one that isn't trusted with other pods.
func Preempts(pod *v1.Pod) bool {
	if sourceKind(pod) == appliedSource {
		return IsMirror(pod) || hasSystemPriority(pod) || hasSystemClass(pod)
	}
	return IsMirror(pod) || IsStatic(pod) || hasSystemPriority(pod)
}

// NodeCritical reports whether the kernel's OOM killer is to spare the pod's containers: the kubelet's
// IsNodeCriticalPod. These are the pods of the class system-node-critical that also preempt.
func NodeCritical(pod *v1.Pod) bool {
	return pod.Spec.PriorityClassName == nodeCriticalClass && Preempts(pod)
}

// SparedByEviction reports whether node pressure neither evicts the pod nor keeps it from being admitted. The kubelet
// never evicts a static pod, because it doesn't start it again. podexecd does start it again, so a static pod is spared
// only if it has a system priority or names a system class: its priority may be missing, as no API server computes it.
func SparedByEviction(pod *v1.Pod) bool {
	return IsMirror(pod) || hasSystemPriority(pod) || hasSystemClass(pod)
}

func hasSystemClass(pod *v1.Pod) bool {
	return slices.Contains([]string{nodeCriticalClass, clusterCriticalClass}, pod.Spec.PriorityClassName)
}

func hasSystemPriority(pod *v1.Pod) bool {
	return ptr.Deref(pod.Spec.Priority, 0) >= SystemCriticalPriority
}
