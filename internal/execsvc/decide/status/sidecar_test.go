package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func TestPhaseWithSidecar(t *testing.T) {
	pulling := map[string]observed.Waiting{"side": {Reason: "ImagePullBackOff"}}
	for name, c := range map[string]struct {
		policy     v1.RestartPolicy
		containers []observed.Container
		waiting    map[string]observed.Waiting
		probes     observed.Probes // nil: the sidecar has no startup probe
		terminal   bool
		want       v1.PodPhase
	}{
		"not made":                         {policy: always, want: v1.PodPending},
		"its image is missing":             {policy: always, waiting: pulling, want: v1.PodPending},
		"it runs, the main one to come":    {policy: always, containers: []observed.Container{running("side")}, want: v1.PodPending},
		"it hasn't started":                {policy: always, containers: []observed.Container{running("side")}, probes: observed.Probes{"id-side": {Startup: observed.Undecided}}, want: v1.PodPending},
		"both run":                         {policy: always, containers: []observed.Container{running("a"), running("side")}, want: v1.PodRunning},
		"it is restarting, not started":    {policy: always, containers: []observed.Container{attempt(1, running("side")), running("a")}, probes: observed.Probes{"id-side1": {Startup: observed.Undecided}}, want: v1.PodRunning},
		"it failed, the main one runs":     {policy: never, containers: []observed.Container{running("a"), exited("side", 1)}, want: v1.PodRunning},
		"it failed, the main one to come":  {policy: never, containers: []observed.Container{exited("side", 1)}, want: v1.PodPending},
		"it still runs, the main one done": {policy: never, containers: []observed.Container{exited("a", 0), running("side")}, want: v1.PodRunning},
		"it was killed, the main one done": {policy: never, containers: []observed.Container{exited("a", 0), exited("side", 137)}, want: v1.PodSucceeded},
		"it ended well, the main one not":  {policy: never, containers: []observed.Container{exited("a", 1), exited("side", 0)}, want: v1.PodFailed},
		"both ended, always":               {policy: always, containers: []observed.Container{exited("a", 0), exited("side", 0)}, want: v1.PodRunning},
		"at the end, it was killed":        {policy: always, containers: []observed.Container{exited("a", 0), exited("side", 137)}, terminal: true, want: v1.PodSucceeded},
		"at the end, it never started":     {policy: always, terminal: true, want: v1.PodFailed},
	} {
		pod := podOf(c.policy, "side", "a")
		if c.probes != nil {
			pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
		}
		input := in(pod, has(c.containers...))
		input.Waiting, input.Probes, input.Terminal = c.waiting, c.probes, c.terminal
		got := Generate(input)
		if got.Phase != c.want {
			t.Errorf("%s: %s, want %s", name, got.Phase, c.want)
		}
		input.Previous = &got
		if diff := cmp.Diff(got, Generate(input)); diff != "" {
			t.Errorf("%s, the second time (-first +second):\n%s", name, diff)
		}
	}
}

func TestConditionsWithSidecar(t *testing.T) {
	for name, c := range map[string]struct {
		has  *observed.Pod
		want []string
	}{
		"not started": {has(running("side")), []string{
			"Initialized=False ContainersNotInitialized: containers with incomplete status: [side]",
			"ContainersReady=False ContainersNotReady: containers with unready status: [side a]"}},
		"the main one runs, it is restarting": {has(running("side"), running("a")), []string{
			"Initialized=True", "ContainersReady=False ContainersNotReady: containers with unready status: [side]"}},
	} {
		pod := podOf(always, "side", "a")
		pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
		got := Generate(in(pod, c.has)).Conditions
		picked := short([]v1.PodCondition{*condition(got, v1.PodInitialized), *condition(got, v1.ContainersReady)})
		if diff := cmp.Diff(c.want, picked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A pod that was initialized stays so, though its init containers run again in a new sandbox.
func TestInitializedStays(t *testing.T) {
	pod := podOf(always, "init1", "side", "a")
	before := Generate(in(pod, has(exited("init1", 0), running("side"), running("a"))))
	input := in(pod, has(attempt(1, running("init1")), exited("side", 137), exited("a", 137)))
	for i := range input.Runtime.Containers[1:] {
		input.Runtime.Containers[i+1].SandboxID = "s0"
	}
	input.Previous = &before
	got := Generate(input)
	if c := condition(got.Conditions, v1.PodInitialized); c.Status != v1.ConditionTrue || got.Phase != v1.PodPending {
		t.Errorf("Initialized is %s, phase %s; want True and Pending", c.Status, got.Phase)
	}
}

// A sidecar restarts whatever its exit code and the pod's policy, and waits in backoff like others.
func TestSidecarInBackoff(t *testing.T) {
	for _, code := range []int32{0, 1} {
		input := in(podOf(never, "side", "a"), has(exited("side", code), running("a")))
		input.Waiting = map[string]observed.Waiting{"side": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
		s := Generate(input).InitContainerStatuses[0]
		if s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.LastTerminationState.Terminated == nil {
			t.Errorf("after exit code %d: %+v", code, s)
		}
	}
}
