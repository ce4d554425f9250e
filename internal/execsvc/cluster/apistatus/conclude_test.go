package apistatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// In a pod that is over every container has ended, except those that were never reached.
func TestConclude(t *testing.T) {
	lost := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", ExitCode: 137,
	}}
	for name, tt := range map[string]struct {
		init, main         []v1.ContainerStatus
		wantInit, wantMain []v1.ContainerStatus
	}{
		"without init containers all fail": {
			main: containers(waitingState(), exited(0), running1()), wantMain: containers(lost, exited(0), lost),
		},
		"before the first init container has ended only that fails": {
			init: containers(waitingState(), waitingState()), main: containers(waitingState()),
			wantInit: containers(lost, waitingState()), wantMain: containers(waitingState()),
		},
		"in the second one both count": {
			init: containers(exited(0), running1(), waitingState()), main: containers(waitingState()),
			wantInit: containers(exited(0), lost, waitingState()), wantMain: containers(waitingState()),
		},
		"after the last init container main ones have failed": {
			init: containers(exited(0), exited(0)), main: containers(waitingState()),
			wantInit: containers(exited(0), exited(0)), wantMain: containers(lost),
		},
		"a main container that ran once tells as much": {
			init: containers(waitingState()), main: []v1.ContainerStatus{{Name: "a", State: waitingState(), LastTerminationState: exited(1)}},
			wantInit: containers(lost), wantMain: []v1.ContainerStatus{{Name: "a", State: lost, LastTerminationState: exited(1)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{}
			for _, s := range tt.init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: s.Name})
			}
			for _, static := range []bool{false, true} {
				got := &v1.PodStatus{Phase: v1.PodPending}
				for _, s := range tt.init {
					got.InitContainerStatuses = append(got.InitContainerStatuses, *s.DeepCopy())
				}
				for _, s := range tt.main {
					got.ContainerStatuses = append(got.ContainerStatuses, *s.DeepCopy())
				}
				conclude(pod, got, static)
				want := &v1.PodStatus{Phase: v1.PodFailed, InitContainerStatuses: tt.wantInit, ContainerStatuses: tt.wantMain}
				if static {
					want.Phase = v1.PodPending
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("static %v (-want +got):\n%s", static, diff)
				}
			}
		})
	}
}

// A sidecar that is last makes the pod initialized once it has started.
func TestConcludeWithSidecar(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "a", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}}}
	for _, started := range []bool{false, true} {
		s := &v1.PodStatus{InitContainerStatuses: containers(running1()), ContainerStatuses: containers(waitingState())}
		s.InitContainerStatuses[0].Started = &started
		conclude(pod, s, false)
		if failed := s.ContainerStatuses[0].State.Terminated != nil; failed != started {
			t.Errorf("the sidecar has started: %v; the main container has failed: %v", started, failed)
		}
	}
}
