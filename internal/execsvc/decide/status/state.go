package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func lost(id, message string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ExitCode: lostExitCode, Reason: containerStatusUnknown, Message: message, ContainerID: id}
}

func waiting(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// defaultReason returns the reason of a container that waits without a problem.
func defaultReason(pod *v1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return podInitializing
	}
	return containerCreating
}

func containerID(in *Input, c *observed.Container) string { return in.RuntimeName + "://" + c.ID }

// find returns the status of that name, or nil.
func find(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
