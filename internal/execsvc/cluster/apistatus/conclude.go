package apistatus

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// conclude completes the status of a pod that is over, as the kubelet does (TerminatePod): a container without an
// end counts as failed, so that the pod doesn't appear successful. Main containers of a pod that never got past its
// init containers stay waiting, and so do the init containers after the one that failed.
func conclude(pod *v1.Pod, status *v1.PodStatus, static bool) {
	if initialized(pod, status) {
		failUnended(status.ContainerStatuses)
	}
	failUnended(begun(status.InitContainerStatuses))
	if !static && !podmeta.IsTerminal(status.Phase) {
		status.Phase = v1.PodFailed
	}
}

func failUnended(statuses []v1.ContainerStatus) {
	for i := range statuses {
		if statuses[i].State.Terminated == nil {
			statuses[i].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", ExitCode: 137,
			}}
		}
	}
}

// initialized reports whether main containers of the pod may have started.
func initialized(pod *v1.Pod, status *v1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for i := range status.ContainerStatuses {
		if s := &status.ContainerStatuses[i]; s.LastTerminationState.Terminated != nil || s.State.Waiting == nil {
			return true
		}
	}
	last := &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	for i := range status.InitContainerStatuses {
		s := &status.InitContainerStatuses[i]
		switch {
		case s.Name != last.Name:
		case podmeta.IsSidecar(last):
			return s.State.Running != nil && ptr.Deref(s.Started, false)
		default:
			return succeeded(s.State.Terminated) || succeeded(s.LastTerminationState.Terminated)
		}
	}
	return false
}

func succeeded(t *v1.ContainerStateTerminated) bool { return t != nil && t.ExitCode == 0 }

// begun returns the init containers up to the last one that was ever started, and at least the first one: if nothing
// else failed the pod, it did.
func begun(statuses []v1.ContainerStatus) []v1.ContainerStatus {
	for i := len(statuses) - 1; i > 0; i-- {
		if statuses[i].State.Waiting == nil || statuses[i].LastTerminationState.Terminated != nil {
			return statuses[:i+1]
		}
	}
	return statuses[:min(1, len(statuses))]
}
