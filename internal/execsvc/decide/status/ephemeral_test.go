package status

import (
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func ephemeralOf(pod *v1.Pod, names ...string) *v1.Pod {
	for _, name := range names {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "img/" + name},
		})
	}
	return pod
}

// Ephemeral containers have only a state: they are never ready, and don't affect phase and conditions.
func TestEphemeralContainers(t *testing.T) {
	pod := ephemeralOf(podOf(always, "a"), "shell", "debug", "broken")
	input := in(pod, has(running("shell"), exited("debug", 3), running("a")))
	input.Waiting = map[string]observed.Waiting{"broken": {Reason: "ErrImagePull"}, "debug": {Reason: "CrashLoopBackOff"}}
	got := Generate(input)
	var names []string
	for _, s := range got.EphemeralContainerStatuses {
		names = append(names, s.Name)
		if s.Started != nil || s.Ready {
			t.Errorf("%s has started %v, ready %v", s.Name, s.Started, s.Ready)
		}
	}
	if diff := cmp.Diff([]string{"broken", "debug", "shell"}, names); diff != "" {
		t.Fatalf("by name (-want +got):\n%s", diff)
	}
	if s := got.EphemeralContainerStatuses[0]; s.State.Waiting == nil || s.State.Waiting.Reason != "ErrImagePull" {
		t.Errorf("one that can't start: %+v", s.State)
	}
	if s := got.EphemeralContainerStatuses[1]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 {
		t.Errorf("one that ended: %+v; it isn't started again", s.State)
	}
	if s := got.EphemeralContainerStatuses[2]; s.State.Running == nil || s.ContainerID != "containerd://id-shell" {
		t.Errorf("one that runs: %+v", s)
	}
	if got.Phase != v1.PodRunning || condition(got.Conditions, v1.PodReady).Status != v1.ConditionTrue {
		t.Errorf("phase %s, conditions %v", got.Phase, short(got.Conditions))
	}
	input.Runtime, input.Previous, input.Waiting = has(running("a")), &got, nil
	if s := Generate(input).EphemeralContainerStatuses[1]; s.State.Terminated == nil {
		t.Errorf("one that ended and was removed: %+v", s.State)
	}
}
