package podsummary

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
)

func terminated(name string, code, signal int32, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Signal: signal, Reason: reason}}}
}

func restarted(c corev1.ContainerStatus, times int32, last time.Time) corev1.ContainerStatus {
	c.RestartCount = times
	c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(last)}
	return c
}

func startedSidecar(name string) corev1.ContainerStatus {
	c := podctltest.Running(name)
	c.Started = new(true)
	return c
}

// The words are those of `kubectl get pods`.
func TestSummarize(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	withInit := &corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "sidecar", RestartPolicy: &always}, {Name: "setup"}},
		Containers:     []corev1.Container{{Name: "a"}, {Name: "b"}},
	}
	plain := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}
	type statuses = []corev1.ContainerStatus
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	initialized := []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	older, newer := podctltest.Noon.Add(-time.Hour), podctltest.Noon.Add(-time.Minute)

	tests := []struct {
		name   string
		spec   *corev1.PodSpec
		status corev1.PodStatus
		want   summary
	}{
		{"nothing known", nil, corev1.PodStatus{}, summary{status: "Unknown"}},
		{"pending", plain, corev1.PodStatus{Phase: corev1.PodPending}, summary{status: "Pending", total: 2}},
		{"evicted", plain, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, summary{status: "Evicted", total: 2}},
		{"gated", plain, corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Reason: corev1.PodReasonSchedulingGated}}}, summary{status: "SchedulingGated", total: 2}},
		{"running", plain, corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: statuses{podctltest.Running("a"), podctltest.Running("b")}},
			summary{status: "Running", ready: 2, total: 2}},
		{"creating", plain, corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: statuses{
			podctltest.Waiting("a", "ContainerCreating", ""), podctltest.Waiting("b", "ContainerCreating", "")}}, summary{status: "ContainerCreating", total: 2}},
		{"the first container's reason counts", plain, corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: statuses{
			podctltest.Waiting("a", "ErrImagePull", ""), podctltest.Waiting("b", "CrashLoopBackOff", "")}}, summary{status: "ErrImagePull", total: 2}},
		{"one ready, one crashing", plain, corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: statuses{
			restarted(podctltest.Running("a"), 1, newer), restarted(podctltest.Waiting("b", "CrashLoopBackOff", ""), 7, older)}},
			summary{status: "CrashLoopBackOff", ready: 1, total: 2, restarts: 8, lastRestart: newer}},
		{"completed", plain, corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: statuses{
			terminated("a", 0, 0, "Completed"), terminated("b", 0, 0, "Completed")}}, summary{status: "Completed", total: 2}},
		{"half completed, ready", plain, corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready, ContainerStatuses: statuses{
			terminated("a", 0, 0, "Completed"), podctltest.Running("b")}}, summary{status: "Running", ready: 1, total: 2}},
		{"half completed, not ready", plain, corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: statuses{
			terminated("a", 0, 0, "Completed"), podctltest.Running("b")}}, summary{status: "NotReady", ready: 1, total: 2}},
		{"exit code", plain, corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: statuses{terminated("a", 3, 0, "")}},
			summary{status: "ExitCode:3", total: 2}},
		{"signal", plain, corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: statuses{terminated("a", 137, 9, "")}},
			summary{status: "Signal:9", total: 2}},

		{"init container at work", withInit, corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: statuses{
			startedSidecar("sidecar"), {Name: "setup", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
			summary{status: "Init:1/2", ready: 1, total: 3}},
		{"init container waits for its turn", withInit, corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: statuses{
			podctltest.Waiting("sidecar", "PodInitializing", ""), podctltest.Waiting("setup", "PodInitializing", "")}}, summary{status: "Init:0/2", total: 3}},
		{"init image missing", withInit, corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: statuses{
			startedSidecar("sidecar"), podctltest.Waiting("setup", "ImagePullBackOff", "")}}, summary{status: "Init:ImagePullBackOff", ready: 1, total: 3}},
		{"init crashing", withInit, corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: statuses{
			startedSidecar("sidecar"), restarted(podctltest.Waiting("setup", "CrashLoopBackOff", ""), 5, newer)}},
			summary{status: "Init:CrashLoopBackOff", ready: 1, total: 3, restarts: 5, lastRestart: newer}},
		{"init failed with a reason", withInit, corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: statuses{
			startedSidecar("sidecar"), terminated("setup", 1, 0, "Error")}}, summary{status: "Init:Error", ready: 1, total: 3}},
		{"init failed with a code", withInit, corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: statuses{
			startedSidecar("sidecar"), terminated("setup", 4, 0, "")}}, summary{status: "Init:ExitCode:4", ready: 1, total: 3}},
		{"init restarts don't count once initialization is over", withInit, corev1.PodStatus{Phase: corev1.PodRunning,
			InitContainerStatuses: statuses{
				restarted(startedSidecar("sidecar"), 2, older), restarted(terminated("setup", 0, 0, "Completed"), 5, newer)},
			ContainerStatuses: statuses{podctltest.Running("a"), podctltest.Running("b")}},
			summary{status: "Running", ready: 3, total: 3, restarts: 2, lastRestart: older}},
		{"sidecar down in an initialized pod", withInit, corev1.PodStatus{Phase: corev1.PodRunning, Conditions: initialized,
			InitContainerStatuses: statuses{podctltest.Waiting("sidecar", "CrashLoopBackOff", ""), terminated("setup", 0, 0, "Completed")},
			ContainerStatuses:     statuses{podctltest.Running("a"), podctltest.Running("b")}},
			summary{status: "Init:CrashLoopBackOff", ready: 2, total: 3}},
		{"without spec", nil, corev1.PodStatus{Phase: corev1.PodRunning,
			InitContainerStatuses: statuses{startedSidecar("sidecar"), terminated("setup", 0, 0, "Completed")},
			ContainerStatuses:     statuses{podctltest.Running("a")}},
			summary{status: "Running", ready: 2, total: 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := summarize(test.spec, &test.status); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}
