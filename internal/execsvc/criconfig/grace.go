package criconfig

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// GracePeriod is how long, in seconds, the pod's containers get to end by themselves: what its deletion says, or else the pod,
// or else the kubelet's 30.
func GracePeriod(pod *v1.Pod) int64 {
	return *cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, ptr.To[int64](v1.DefaultTerminationGracePeriodSeconds))
}
