package cridiff

import (
	"cmp"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// passing are reasons of containers that wait for nothing that lasts: which one is seen is by chance. That a container
// can't be run is seen until the agent tries again, which is CrashLoopBackOff; its last state has the cause.
var passing = map[string]bool{
	"ContainerCreating": true, "PodInitializing": true, "CrashLoopBackOff": true, "RunContainerError": true, "": true,
}

// outcomeOf returns why a pod failed, isn't resized, its containers wait, or they ended. For a pod that runs, it is empty.
func outcomeOf(pod *v1.Pod) map[string]any {
	outcome := map[string]any{}
	if pod.Status.Phase == v1.PodFailed {
		outcome["reason"], outcome["message"] = pod.Status.Reason, pod.Status.Message
	}
	if c := conditionOf(pod, v1.PodResizePending); c != nil {
		outcome["resize"] = map[string]any{"reason": c.Reason, "message": c.Message}
	}
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if ended := cmp.Or(statuses[i].State.Terminated, statuses[i].LastTerminationState.Terminated); ended != nil {
				outcome["ended."+statuses[i].Name] = map[string]any{"reason": ended.Reason, "code": ended.ExitCode, "message": ended.Message}
			}
			if waits := statuses[i].State.Waiting; waits != nil && !passing[waits.Reason] {
				outcome["waiting."+statuses[i].Name] = waiting(waits)
			}
		}
	}
	return outcome
}

var backOff = regexp.MustCompile(`^Back-off pulling image ".*?": (ErrImagePull): `)

// waiting returns why a container waits. Whether a pull has just failed, or is tried again, is by chance: that its failure
// is shown again is left out.
func waiting(w *v1.ContainerStateWaiting) map[string]any {
	reason, message := w.Reason, w.Message
	if cause := backOff.FindStringSubmatch(message); cause != nil && reason == "ImagePullBackOff" {
		reason, message = cause[1], strings.TrimPrefix(message, cause[0])
	}
	return map[string]any{"reason": reason, "message": message}
}
