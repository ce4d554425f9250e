package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

// TestPhase follows the kubelet's getPhase.
func TestPhase(t *testing.T) {
	crashing := map[string]observed.Waiting{"a": {Reason: "CrashLoopBackOff"}}
	oldSandbox := func(c observed.Container) observed.Container {
		c.SandboxID = "s0"
		return c
	}
	for name, c := range map[string]struct {
		pod *v1.Pod
		// containers are what the runtime has; unseen means that it has no sandbox either.
		containers []observed.Container
		unseen     bool
		waiting    map[string]observed.Waiting
		want       v1.PodPhase
		// end is the phase once the pod is Terminal; empty: not asked.
		end v1.PodPhase
	}{
		"nothing yet":                {pod: podOf(always, "a"), unseen: true, want: v1.PodPending, end: v1.PodFailed},
		"a sandbox only":             {pod: podOf(always, "a"), want: v1.PodPending, end: v1.PodFailed},
		"created, not started":       {pod: podOf(always, "a"), containers: []observed.Container{created("a")}, want: v1.PodPending, end: v1.PodFailed},
		"all running":                {pod: podOf(always, "a", "b"), containers: []observed.Container{running("b"), running("a")}, want: v1.PodRunning},
		"one of two not started yet": {pod: podOf(always, "a", "b"), containers: []observed.Container{running("a")}, want: v1.PodPending},
		"the image of one missing": {pod: podOf(always, "a", "b"), containers: []observed.Container{running("a")},
			waiting: map[string]observed.Waiting{"b": {Reason: "ImagePullBackOff"}}, want: v1.PodPending, end: v1.PodFailed},

		"always: all ended well":    {pod: podOf(always, "a"), containers: []observed.Container{exited("a", 0)}, want: v1.PodRunning, end: v1.PodSucceeded},
		"always: all failed":        {pod: podOf(always, "a"), containers: []observed.Container{exited("a", 1)}, want: v1.PodRunning, end: v1.PodFailed},
		"always: in a crash loop":   {pod: podOf(always, "a"), containers: []observed.Container{exited("a", 1)}, waiting: crashing, want: v1.PodRunning},
		"always: one ended":         {pod: podOf(always, "a", "b"), containers: []observed.Container{exited("b", 1), running("a")}, want: v1.PodRunning},
		"on failure: all well":      {pod: podOf(onFailure, "a", "b"), containers: []observed.Container{exited("b", 0), exited("a", 0)}, want: v1.PodSucceeded, end: v1.PodSucceeded},
		"on failure: one failed":    {pod: podOf(onFailure, "a", "b"), containers: []observed.Container{exited("b", 2), exited("a", 0)}, want: v1.PodRunning, end: v1.PodFailed},
		"on failure: crash loop":    {pod: podOf(onFailure, "a", "b"), containers: []observed.Container{exited("b", 0), exited("a", 1)}, waiting: crashing, want: v1.PodRunning},
		"never: all well":           {pod: podOf(never, "a", "b"), containers: []observed.Container{exited("b", 0), exited("a", 0)}, want: v1.PodSucceeded},
		"never: one failed":         {pod: podOf(never, "a", "b"), containers: []observed.Container{exited("b", 1), exited("a", 0)}, want: v1.PodFailed},
		"never: one failed, one on": {pod: podOf(never, "a", "b"), containers: []observed.Container{exited("b", 1), running("a")}, want: v1.PodRunning},

		"init: nothing yet":       {pod: podOf(always, "init1", "a"), want: v1.PodPending},
		"init: running":           {pod: podOf(always, "init1", "a"), containers: []observed.Container{running("init1")}, want: v1.PodPending},
		"init: done":              {pod: podOf(always, "init1", "a"), containers: []observed.Container{exited("init1", 0)}, want: v1.PodPending},
		"init: first of two done": {pod: podOf(always, "init1", "init2", "a"), containers: []observed.Container{exited("init1", 0)}, want: v1.PodPending},
		"init: done and running":  {pod: podOf(always, "init1", "a"), containers: []observed.Container{running("a"), exited("init1", 0)}, want: v1.PodRunning},
		"init: failed, always":    {pod: podOf(always, "init1", "a"), containers: []observed.Container{exited("init1", 1)}, want: v1.PodPending, end: v1.PodFailed},
		"init: failed, in backoff": {pod: podOf(always, "init1", "a"), containers: []observed.Container{exited("init1", 1)},
			waiting: map[string]observed.Waiting{"init1": {Reason: "CrashLoopBackOff"}}, want: v1.PodPending},
		"init: failed, on failure":   {pod: podOf(onFailure, "init1", "a"), containers: []observed.Container{exited("init1", 1)}, want: v1.PodPending, end: v1.PodFailed},
		"init: failed, never":        {pod: podOf(never, "init1", "a"), containers: []observed.Container{exited("init1", 1)}, want: v1.PodFailed},
		"init: removed afterwards":   {pod: podOf(always, "init1", "a"), containers: []observed.Container{running("a")}, want: v1.PodRunning},
		"init: again, new sandbox":   {pod: podOf(always, "init1", "a"), containers: []observed.Container{attempt(1, running("init1")), oldSandbox(exited("a", 0))}, want: v1.PodPending},
		"init: done, main succeeded": {pod: podOf(never, "init1", "a"), containers: []observed.Container{exited("a", 0), exited("init1", 0)}, want: v1.PodSucceeded},
	} {
		rt := has(c.containers...)
		if c.unseen {
			rt = nil
		}
		input := in(c.pod, rt)
		input.Waiting = c.waiting
		if got := Generate(input); got.Phase != c.want {
			t.Errorf("%s: %s, want %s", name, got.Phase, c.want)
		}
		input.Terminal = true
		if got := Generate(input); c.end != "" && got.Phase != c.end {
			t.Errorf("%s, at the end: %s, want %s", name, got.Phase, c.end)
		}
	}
}

func TestPhaseAtTheEndStays(t *testing.T) {
	for _, end := range []v1.PodPhase{v1.PodSucceeded, v1.PodFailed} {
		input := in(podOf(always, "a"), has(running("a")))
		input.Previous = &v1.PodStatus{Phase: end, Reason: "Why", Message: "because"}
		if got := Generate(input); got.Phase != end || got.Reason != "Why" || got.Message != "because" {
			t.Errorf("after %s: %s %q %q", end, got.Phase, got.Reason, got.Message)
		}
		input.Previous, input.Pod.Status.Phase = &v1.PodStatus{Phase: v1.PodRunning}, end
		if got := Generate(input); got.Phase != end {
			t.Errorf("while the API has %s: %s", end, got.Phase)
		}
	}
}

func TestReasonGoesWithItsPhase(t *testing.T) {
	input := in(podOf(always, "a"), has(running("a")))
	input.Previous = &v1.PodStatus{Phase: v1.PodPending, Reason: "Why", Message: "because"}
	if got := Generate(input); got.Reason != "" || got.Message != "" {
		t.Errorf("%s still has the reason %q and message %q of before", got.Phase, got.Reason, got.Message)
	}
}

// A pod that was rejected before it began has the kubelet's status: no containers, conditions and addresses. One that
// ran before a restart of the node keeps them.
func TestRejectedPod(t *testing.T) {
	input := in(podOf(always, "init1", "a"), nil)
	input.HostIPs = []string{"192.0.2.1"}
	waits := Generate(input)
	input.Failure = &Failure{Reason: "OutOfcpu", Message: "Pod was rejected: no CPU", Rejected: true}
	for name, previous := range map[string]*v1.PodStatus{"at first": nil, "after it waited": &waits} {
		input.Previous = previous
		got := Generate(input)
		want := v1.PodStatus{
			ObservedGeneration: got.ObservedGeneration, StartTime: got.StartTime, QOSClass: v1.PodQOSBestEffort,
			Phase: v1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: no CPU",
		}
		if diff := cmp.Diff(want, got); diff != "" || got.StartTime == nil {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		input.Previous = &got
		if diff := cmp.Diff(got, Generate(input)); diff != "" {
			t.Errorf("%s, the second time (-first +second):\n%s", name, diff)
		}
		ended := input
		ended.Failure, ended.Terminal = nil, true
		if diff := cmp.Diff(got, Generate(ended)); diff != "" {
			t.Errorf("%s, when it ends (-first +ended):\n%s", name, diff)
		}
	}
	input = in(podOf(always, "a"), has(running("a")))
	ran := Generate(input)
	input.Failure, input.Runtime, input.Previous = &Failure{Reason: "OutOfcpu", Rejected: true}, nil, &ran
	if got := Generate(input); got.Phase != v1.PodFailed || len(got.ContainerStatuses) != 1 || condition(got.Conditions, v1.PodReady) == nil {
		t.Errorf("after it ran: %s with %v, %v", got.Phase, got.ContainerStatuses, got.Conditions)
	}
}

// A pod that the node ends before a container was created has no container statuses.
func TestEndedBeforeItBegan(t *testing.T) {
	input := in(podOf(always, "init1", "a"), nil)
	input.Failure = &Failure{Reason: "UnsupportedFeature", Message: "spec.volumes[0]: no"}
	got := Generate(input)
	if got.Phase != v1.PodFailed || got.Reason != "UnsupportedFeature" || got.Message != "spec.volumes[0]: no" {
		t.Errorf("%s %q %q", got.Phase, got.Reason, got.Message)
	}
	if got.ContainerStatuses != nil || got.InitContainerStatuses != nil {
		t.Errorf("it says something of containers that never were: %v", got.ContainerStatuses)
	}
	if c := condition(got.Conditions, v1.PodReady); c.Status != v1.ConditionFalse || c.Reason != "PodFailed" {
		t.Errorf("Ready %s %s", c.Status, c.Reason)
	}
	if c := condition(got.Conditions, v1.PodInitialized); c.Status != v1.ConditionFalse || c.Reason != "UnknownContainerStatuses" {
		t.Errorf("Initialized %s %s", c.Status, c.Reason)
	}
	input.Previous = &got
	if diff := cmp.Diff(got, Generate(input)); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
}

func TestPodThatTheNodeStoppedKeepsItsContainers(t *testing.T) {
	input := in(podOf(always, "a"), has(running("a")))
	input.Failure = &Failure{Reason: "Evicted", Message: "disk"}
	got := Generate(input)
	if got.Phase != v1.PodFailed || len(got.ContainerStatuses) != 1 {
		t.Errorf("%s with %d container statuses", got.Phase, len(got.ContainerStatuses))
	}
	if c := condition(got.Conditions, v1.ContainersReady); c.Status != v1.ConditionFalse || c.Reason != "PodFailed" {
		t.Errorf("ContainersReady %s %s while its container is on its way out", c.Status, c.Reason)
	}
}
