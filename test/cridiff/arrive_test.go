package cridiff

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	started = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended   = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
	invalid = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "InvalidImageName"}}
	soon    = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
)

func statuses(states ...v1.ContainerState) []v1.ContainerStatus {
	var list []v1.ContainerStatus
	for i, s := range states {
		list = append(list, v1.ContainerStatus{Name: string(rune('a' + i)), State: s})
	}
	return list
}

// TestStays: a pod stays if each of its containers runs, has ended or can't start, or an init container can't.
func TestStays(t *testing.T) {
	for name, tc := range map[string]struct {
		init, main []v1.ContainerState
		phase      v1.PodPhase
		want       bool
	}{
		"not started":              {want: false},
		"rejected":                 {phase: v1.PodFailed, want: true},
		"running":                  {init: []v1.ContainerState{ended}, main: []v1.ContainerState{started}, want: true},
		"one can't start":          {init: []v1.ContainerState{started}, main: []v1.ContainerState{invalid}, want: true},
		"the main one starts soon": {init: []v1.ContainerState{ended}, main: []v1.ContainerState{soon}, want: false},
		"the init one can't start": {init: []v1.ContainerState{invalid}, main: []v1.ContainerState{soon}, want: true},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "m"}}}}
		pod.Status.Phase, pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = tc.phase, statuses(tc.init...), statuses(tc.main...)
		if got := stays(pod); got != tc.want {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}

// TestProbed: the exec probes of the containers that run must have run, and hooks don't count.
func TestProbed(t *testing.T) {
	probe := func(command string) *v1.Probe {
		return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}}}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
		{Name: "a", ReadinessProbe: probe("x"), LivenessProbe: probe("y")}, {Name: "b", ReadinessProbe: probe("x")},
	}}}
	of := &v1.Pod{Status: v1.PodStatus{ContainerStatuses: statuses(started, invalid)}}
	call := func(container, command string) Call {
		return callOf(t, "ExecSync", "", &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{command}}, &runtimeapi.ExecSyncResponse{})
	}
	calls := []Call{call("1", "hook"), call("1", "x"), call("1", "x"), call("1", "y"), call("2", "x")}
	for n, want := range map[int][2]bool{0: {false, false}, 3: {false, false}, 4: {true, false}, 5: {true, true}} {
		some, all := probed([]*v1.Pod{onlyRunning(pod, of)}, calls[:n]), probed([]*v1.Pod{pod}, calls[:n])
		if some != want[0] || all != want[1] {
			t.Errorf("after %d calls: %v of those that run, %v of all; want %v", n, some, all, want)
		}
	}
}
