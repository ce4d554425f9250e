package podmeta

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// GracePeriod returns the pod's termination grace period in seconds: that of its deletion, or else that of its spec, or
// else the kubelet's 30.
func GracePeriod(pod *v1.Pod) int64 {
	return *cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, ptr.To[int64](v1.DefaultTerminationGracePeriodSeconds))
}

// IsSidecar reports whether an init container is restartable: it runs beside the main containers.
func IsSidecar(c *v1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == v1.ContainerRestartPolicyAlways
}

// IsTerminal reports whether the phase is final: Succeeded or Failed.
func IsTerminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }
