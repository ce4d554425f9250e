package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func terminated(id string, code int32, reason string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, ContainerID: "containerd://" + id, StartedAt: stamp(t0), FinishedAt: stamp(t0.Add(time.Minute)),
	}
}

func TestContainerStates(t *testing.T) {
	said := exited("a", 1)
	said.Reason, said.Message, said.Image = "OOMKilled", "too much", "docker.io/img/a"
	gone := running("a")
	gone.State = observed.Unknown
	base := v1.ContainerStatus{Name: "a", Image: "img/a", ImageID: "sha256:a", ContainerID: "containerd://id-a", Started: ptr.To(false), Resources: &v1.ResourceRequirements{}}
	but := func(change func(*v1.ContainerStatus)) v1.ContainerStatus {
		s := *base.DeepCopy()
		change(&s)
		return s
	}
	user := &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: 7, GID: 8, SupplementalGroups: []int64{8, 9}}}
	reported := created("a")
	reported.User, reported.StopSignal = user, ptr.To(v1.SIGUSR1)
	for name, c := range map[string]struct {
		has  *observed.Pod
		want v1.ContainerStatus
	}{
		"its user is told": {has(reported), but(func(s *v1.ContainerStatus) {
			s.State, s.User, s.StopSignal = waiting("ContainerCreating", ""), user, ptr.To(v1.SIGUSR1)
		})},
		"not made": {nil, v1.ContainerStatus{Name: "a", Image: "img/a", Started: ptr.To(false), State: waiting("ContainerCreating", "")}},
		"made":     {has(created("a")), but(func(s *v1.ContainerStatus) { s.State = waiting("ContainerCreating", "") })},
		"running": {has(running("a")), but(func(s *v1.ContainerStatus) {
			s.State.Running, s.Ready, s.Started = &v1.ContainerStateRunning{StartedAt: stamp(t0)}, true, ptr.To(true)
		})},
		"ended well": {has(exited("a", 0)), but(func(s *v1.ContainerStatus) { s.State.Terminated = terminated("id-a", 0, "Completed") })},
		"failed":     {has(exited("a", 3)), but(func(s *v1.ContainerStatus) { s.State.Terminated = terminated("id-a", 3, "Error") })},
		"the runtime's reason": {has(said), but(func(s *v1.ContainerStatus) {
			s.Image = "docker.io/img/a"
			s.State.Terminated = terminated("id-a", 1, "OOMKilled")
			s.State.Terminated.Message = "too much"
		})},
		"unknown, never seen": {has(gone), but(func(s *v1.ContainerStatus) { s.State = waiting("ContainerCreating", "") })},
		"restarted": {has(attempt(2, running("a")), attempt(1, exited("a", 1))), but(func(s *v1.ContainerStatus) {
			s.ContainerID, s.RestartCount = "containerd://id-a2", 2
			s.State.Running, s.Ready, s.Started = &v1.ContainerStateRunning{StartedAt: stamp(t0)}, true, ptr.To(true)
			s.LastTerminationState.Terminated = terminated("id-a1", 1, "Error")
		})},
	} {
		got := Generate(in(podOf(always, "a"), c.has))
		if diff := cmp.Diff([]v1.ContainerStatus{c.want}, got.ContainerStatuses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestContainerOrder(t *testing.T) {
	got := Generate(in(podOf(always, "b", "a", "init2", "init1"), nil))
	var names []string
	for _, s := range append(got.InitContainerStatuses, got.ContainerStatuses...) {
		names = append(names, s.Name)
		if s.State.Waiting == nil || s.State.Waiting.Reason != "PodInitializing" {
			t.Errorf("%s is %v, want it waiting for PodInitializing", s.Name, s.State)
		}
	}
	if diff := cmp.Diff([]string{"init2", "init1", "a", "b"}, names); diff != "" {
		t.Errorf("init as in the pod, then main by name (-want +got):\n%s", diff)
	}
}

func TestInitContainerReadiness(t *testing.T) {
	got := Generate(in(podOf(always, "init1", "init2", "init3", "a"), has(running("init3"), exited("init2", 1), exited("init1", 0))))
	var ready []bool
	for _, s := range got.InitContainerStatuses {
		ready = append(ready, s.Ready)
	}
	if diff := cmp.Diff([]bool{true, false, false}, ready); diff != "" {
		t.Errorf("only one that ended well is ready (-want +got):\n%s", diff)
	}
}

func TestWaitingCountsOnlyForWhatShouldStart(t *testing.T) {
	backoff := map[string]observed.Waiting{
		"a": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}, "init1": {Reason: "CrashLoopBackOff", Message: "back-off 10s"},
	}
	deleted := podOf(always, "a")
	deleted.DeletionTimestamp = &metav1.Time{Time: t0}
	for name, c := range map[string]struct {
		pod  *v1.Pod
		has  *observed.Pod
		held bool
	}{
		"not made":               {podOf(always, "a"), has(), true},
		"made, not started":      {podOf(always, "a"), has(created("a")), true},
		"running":                {podOf(always, "a"), has(running("a")), false},
		"always, ended well":     {podOf(always, "a"), has(exited("a", 0)), true},
		"on failure, failed":     {podOf(onFailure, "a"), has(exited("a", 1)), true},
		"on failure, ended well": {podOf(onFailure, "a"), has(exited("a", 0)), false},
		"never, failed":          {podOf(never, "a"), has(exited("a", 1)), false},
		"deleted":                {deleted, has(exited("a", 1)), false},
	} {
		input := in(c.pod, c.has)
		input.Waiting = backoff
		got := Generate(input).ContainerStatuses[0]
		if held := got.State.Waiting != nil && got.State.Waiting.Reason == "CrashLoopBackOff"; held != c.held {
			t.Errorf("%s: state %+v, want in backoff: %v", name, got.State, c.held)
		}
		if c.held && c.has.Latest("a") != nil && c.has.Latest("a").State == observed.Exited && got.LastTerminationState.Terminated == nil {
			t.Errorf("%s: its end isn't its last state", name)
		}
	}
	input := in(podOf(always, "init1", "a"), has(exited("init1", 0)))
	input.Waiting = backoff
	if got := Generate(input).InitContainerStatuses[0]; got.State.Terminated == nil {
		t.Errorf("an init container that is done: state %+v", got.State)
	}
}

// A container in backoff must not flap between ended and waiting, as its worker looks before and after each attempt. In
// a pod with init containers, a container that isn't there yet waits for the initialization: kubectl shows another
// reason of an init container as a problem.
func TestWaitingForTheInitialization(t *testing.T) {
	for name, want := range map[string]string{"init1": "PodInitializing", "b": "ContainerCreating"} {
		for what, c := range map[string]struct {
			has     *observed.Pod
			waiting map[string]observed.Waiting
			message string
		}{
			"nothing yet":         {has(), nil, ""},
			"created":             {has(created(name)), nil, ""},
			"its image is pulled": {has(), map[string]observed.Waiting{name: {Reason: "ContainerCreating", Message: "pulling"}}, "pulling"},
		} {
			input := in(podOf(always, name), c.has)
			input.Waiting = c.waiting
			got := Generate(input)
			s := append(got.InitContainerStatuses, got.ContainerStatuses...)[0].State.Waiting
			if s == nil || s.Reason != want || s.Message != c.message {
				t.Errorf("%s, %s: waiting %+v; want %s", name, what, s, want)
			}
		}
	}
}

func TestWaitingStaysUntilTheFirstTry(t *testing.T) {
	pod, rt := podOf(always, "a", "b"), has(exited("a", 1))
	input := in(pod, rt)
	input.Waiting = map[string]observed.Waiting{"a": {Reason: "CrashLoopBackOff", Message: "m"}, "b": {Reason: "ErrImagePull", Message: "n"}}
	first := Generate(input)
	input.Waiting, input.Previous = nil, &first
	second := Generate(input)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("nobody tried since (-first +second):\n%s", diff)
	}
	input.Waiting, input.Previous = map[string]observed.Waiting{}, &second
	third := Generate(input)
	if third.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("nothing holds it any more, but its state is %+v", third.ContainerStatuses[0].State)
	}
	if third.ContainerStatuses[0].LastTerminationState.Terminated != nil {
		t.Error("its own end is its last state as well")
	}
}

func TestLastStateOutlivesTheDeadContainer(t *testing.T) {
	pod := podOf(always, "a")
	input := in(pod, has(exited("a", 1)))
	input.Waiting = map[string]observed.Waiting{"a": {Reason: "CrashLoopBackOff"}}
	for name, waitsFirst := range map[string]bool{"after a backoff": true, "at once": false} {
		input := input
		if !waitsFirst {
			input.Waiting = nil
		}
		before := Generate(input)
		input.Waiting, input.Previous, input.Runtime = nil, &before, has(attempt(1, running("a")))
		after := Generate(input)
		if got := after.ContainerStatuses[0].LastTerminationState.Terminated; got == nil || got.ContainerID != "containerd://id-a" {
			t.Errorf("restarted %s: last state %+v, want the end of id-a", name, got)
		}
		input.Previous = &after
		if diff := cmp.Diff(after, Generate(input)); diff != "" {
			t.Errorf("restarted %s, the next time (-first +second):\n%s", name, diff)
		}
	}
}

func TestContainerThatWasTakenAway(t *testing.T) {
	input := in(podOf(always, "a"), has(attempt(2, running("a"))))
	before := Generate(input)
	input.Previous, input.Runtime = &before, has()
	got := Generate(input)
	s := got.ContainerStatuses[0]
	if got.Phase != v1.PodRunning {
		t.Errorf("phase %s, want Running: it is about to be restarted", got.Phase)
	}
	if end := s.LastTerminationState.Terminated; end == nil || end.ExitCode != 137 || end.Reason != "ContainerStatusUnknown" {
		t.Errorf("last state %+v", end)
	}
	if s.RestartCount != 3 {
		t.Errorf("restart count %d, want one more than 2", s.RestartCount)
	}
	input.Previous = &got
	if diff := cmp.Diff(got, Generate(input)); diff != "" {
		t.Errorf("the next time (-first +second):\n%s", diff)
	}
}

func TestEndedContainerThatWasRemoved(t *testing.T) {
	input := in(podOf(never, "a"), has(exited("a", 0)))
	before := Generate(input)
	input.Previous, input.Runtime = &before, nil
	got := Generate(input)
	if diff := cmp.Diff(before.ContainerStatuses, got.ContainerStatuses); diff != "" {
		t.Errorf("its end is forgotten (-before +after):\n%s", diff)
	}
	if got.Phase != v1.PodSucceeded {
		t.Errorf("phase %s", got.Phase)
	}
}

// A termination message is removed with its pod's directory, and the runtime doesn't have it.
func TestLastWordsOutliveTheirFile(t *testing.T) {
	words := func(c observed.Container) observed.Container { c.Message = "out of luck"; return c }
	input := in(podOf(onFailure, "a", "b"), has(attempt(1, words(exited("a", 0))), words(exited("a", 1)), words(exited("b", 0))))
	before := Generate(input)
	input.Previous, input.Runtime = &before, has(attempt(1, exited("a", 0)), exited("a", 1), exited("b", 0))
	if diff := cmp.Diff(before, Generate(input)); diff != "" {
		t.Errorf("after a restart of the agent (-before +after):\n%s", diff)
	}
	// Another container has its own.
	input.Runtime = has(attempt(2, exited("a", 1)), attempt(1, exited("b", 0)))
	for _, s := range Generate(input).ContainerStatuses {
		if s.State.Terminated.Message != "" {
			t.Errorf("%s has the message of the one before: %+v", s.Name, s.State.Terminated)
		}
	}
}

func TestRunningContainerBecomesUnknown(t *testing.T) {
	input := in(podOf(always, "a"), has(running("a")))
	before := Generate(input)
	lost := running("a")
	lost.State = observed.Unknown
	input.Previous, input.Runtime = &before, has(lost)
	got := Generate(input)
	if end := got.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 137 {
		t.Errorf("state %+v", got.ContainerStatuses[0].State)
	}
	if got.Phase != v1.PodRunning {
		t.Errorf("phase %s, want Running: it will be restarted", got.Phase)
	}
	input.Previous = &got
	if diff := cmp.Diff(got, Generate(input)); diff != "" {
		t.Errorf("the next time (-first +second):\n%s", diff)
	}
}

func TestTerminalPodHasNothingRunning(t *testing.T) {
	input := in(podOf(always, "a", "b", "c"), has(exited("b", 1), running("a")))
	before := Generate(input)
	input.Previous, input.Terminal, input.Runtime = &before, true, has(exited("b", 1))
	input.Waiting = map[string]observed.Waiting{"b": {Reason: "CrashLoopBackOff"}}
	got := Generate(input)
	for i, code := range []int32{137, 1} {
		s := got.ContainerStatuses[i]
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != code || s.Ready {
			t.Errorf("%s: state %+v, ready %v; want it ended with %d", s.Name, s.State, s.Ready, code)
		}
	}
	if s := got.ContainerStatuses[2]; s.State.Waiting == nil {
		t.Errorf("%s never started: state %+v", s.Name, s.State)
	}
	if got.Phase != v1.PodFailed {
		t.Errorf("phase %s", got.Phase)
	}
}

func TestVolumeMountStatus(t *testing.T) {
	pod := podOf(always, "a")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}, {Name: "w", MountPath: "/w", ReadOnly: true}}
	want := []v1.VolumeMountStatus{
		{Name: "v", MountPath: "/v"}, {Name: "w", MountPath: "/w", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyDisabled)},
	}
	if diff := cmp.Diff(want, Generate(in(pod, nil)).ContainerStatuses[0].VolumeMounts); diff != "" {
		t.Errorf("volume mounts (-want +got):\n%s", diff)
	}
}
