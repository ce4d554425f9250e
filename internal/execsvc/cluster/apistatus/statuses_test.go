package apistatus_test

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf is a status of a pod with one container, in that phase.
func statusOf(phase v1.PodPhase, ready bool, state v1.ContainerState) *v1.PodStatus {
	truth := map[bool]v1.ConditionStatus{true: v1.ConditionTrue, false: v1.ConditionFalse}
	now := metav1.NewTime(time.Now()).Rfc3339Copy()
	return &v1.PodStatus{
		Phase: phase, QOSClass: v1.PodQOSBestEffort, StartTime: &now, ObservedGeneration: 1,
		Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: truth[ready], LastTransitionTime: now, ObservedGeneration: 1},
			{Type: v1.ContainersReady, Status: truth[ready], LastTransitionTime: now, ObservedGeneration: 1},
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: 1},
		},
		ContainerStatuses: []v1.ContainerStatus{{Name: "c", Image: "image", Ready: ready, State: state}},
	}
}

func waits(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

func runs() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now()).Rfc3339Copy()}}
}

func ended(code int32) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: "Completed"}}
}

func pending() *v1.PodStatus { return statusOf(v1.PodPending, false, waits("ContainerCreating")) }

func ready() *v1.PodStatus { return statusOf(v1.PodRunning, true, runs()) }

func succeeded() *v1.PodStatus {
	return statusOf(v1.PodSucceeded, false, ended(0))
}

// restarted is a status whose container has been restarted so many times.
func restarted(s *v1.PodStatus, times int) *v1.PodStatus {
	s.ContainerStatuses[0].RestartCount = int32(times)
	return s
}
