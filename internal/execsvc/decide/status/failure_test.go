package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// An eviction is a disruption, and a deadline is not.
func TestDisruptionTarget(t *testing.T) {
	input := in(podOf(always, "a"), has(running("a")))
	input.Failure = &Failure{Reason: "DeadlineExceeded", Message: "late"}
	if c := condition(Generate(input).Conditions, v1.DisruptionTarget); c != nil {
		t.Errorf("after a deadline: %v", c)
	}
	input.Failure = &Failure{Reason: "Evicted", Message: "no memory", Disrupted: true}
	got := Generate(input)
	c := condition(got.Conditions, v1.DisruptionTarget)
	if c == nil || c.Status != v1.ConditionTrue || c.Reason != "TerminationByKubelet" || c.Message != "no memory" {
		t.Fatalf("after an eviction: %v", c)
	}
	input.Previous, input.Failure, input.Terminal, input.Runtime = &got, nil, true, has(exited("a", 137))
	after := Generate(input)
	if diff := cmp.Diff(c, condition(after.Conditions, v1.DisruptionTarget)); diff != "" {
		t.Errorf("when it has ended (-before +after):\n%s", diff)
	}
	if after.Phase != v1.PodFailed || after.Reason != "Evicted" {
		t.Errorf("when it has ended: %s %q", after.Phase, after.Reason)
	}
	// The API server has it too, later: it is there once.
	input.Pod.Status.Conditions = []v1.PodCondition{*c}
	n := 0
	for _, c := range Generate(input).Conditions {
		if c.Type == v1.DisruptionTarget {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the condition stands there %d times", n)
	}
}

// disruption is how a pod ends whose container ends with the code while the node ends it because of the failure.
type disruption struct {
	failure Failure
	code    int32
	phase   v1.PodPhase
	reason  string
	// ended is EndedByNode.
	ended bool
}

// A pod that the node ends has succeeded if its containers have, and still says that the node ended it.
func TestDisruptionThatEndsWell(t *testing.T) {
	for name, tc := range map[string]disruption{
		"an eviction, all well":   {Failure{Reason: "Evicted", Disrupted: true}, 0, v1.PodSucceeded, "", true},
		"an eviction, killed":     {Failure{Reason: "Evicted", Disrupted: true}, 137, v1.PodFailed, "Evicted", true},
		"its own limit, all well": {Failure{Reason: "Evicted"}, 0, v1.PodSucceeded, "", false},
		"its own limit, killed":   {Failure{Reason: "Evicted"}, 137, v1.PodFailed, "Evicted", false},
		"a deadline, all well":    {Failure{Reason: "DeadlineExceeded"}, 0, v1.PodFailed, "DeadlineExceeded", false},
	} {
		input := in(podOf(always, "a"), has(exited("a", tc.code)))
		input.Failure, input.Terminal = &tc.failure, true
		got := Generate(input)
		if got.Phase != tc.phase || got.Reason != tc.reason || EndedByNode(&got) != tc.ended {
			t.Errorf("%s: %s %q, ended by the node: %v", name, got.Phase, got.Reason, EndedByNode(&got))
		}
		input.Previous = &got
		if diff := cmp.Diff(got, Generate(input)); diff != "" {
			t.Errorf("%s: the next status differs (-before +after):\n%s", name, diff)
		}
	}
	input := in(podOf(never, "a"), has(exited("a", 0)))
	done := Generate(input)
	input.Previous, input.Failure, input.Terminal = &done, &Failure{Reason: "Evicted", Disrupted: true}, true
	if got := Generate(input); got.Phase != v1.PodSucceeded || EndedByNode(&got) {
		t.Errorf("a pod that had ended before the eviction: %s, %v", got.Phase, got.Conditions)
	}
}

// A static pod that exceeded its own limit stays Failed, whatever its containers say: it starts again by the reason.
func TestStaticPodOverItsLimitStaysFailed(t *testing.T) {
	pod := podOf(always, "a")
	pod.Annotations = map[string]string{podmeta.SourceAnnotation: "file"}
	input := in(pod, has(exited("a", 0)))
	input.Failure, input.Terminal = &Failure{Reason: "Evicted", Message: "full"}, true
	if got := Generate(input); got.Phase != v1.PodFailed || got.Reason != "Evicted" || got.Message != "full" {
		t.Errorf("%s %q %q; want it Failed, and Evicted", got.Phase, got.Reason, got.Message)
	}
}

// While the node ends a pod, its phase doesn't become terminal: containers may have stopped before the sandbox has. The
// pod ends as if both had stopped at once.
func TestDisruptionInTwoSteps(t *testing.T) {
	for name, tc := range map[string]disruption{
		"an eviction, all well": {Failure{Reason: "Evicted", Disrupted: true}, 0, v1.PodSucceeded, "", true},
		"an eviction, killed":   {Failure{Reason: "Evicted", Disrupted: true}, 137, v1.PodFailed, "Evicted", true},
		"a deadline, all well":  {Failure{Reason: "DeadlineExceeded"}, 0, v1.PodFailed, "DeadlineExceeded", false},
	} {
		input := in(podOf(never, "a"), has(running("a")))
		before := Generate(input)
		input.Previous, input.Runtime, input.Ending = &before, has(exited("a", tc.code)), true
		between := Generate(input)
		if between.Phase != v1.PodRunning || len(between.ContainerStatuses) != 1 || between.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("%s: meanwhile it is %s with %v; want it running with an ended container", name, between.Phase, between.ContainerStatuses)
		}
		input.Previous, input.Failure, input.Terminal = &between, &tc.failure, true
		if got := Generate(input); got.Phase != tc.phase || got.Reason != tc.reason || EndedByNode(&got) != tc.ended {
			t.Errorf("%s: %s %q, ended by the node: %v", name, got.Phase, got.Reason, EndedByNode(&got))
		}
	}
	// A pod that had ended before stays as it is; and one that has no status yet runs.
	input := in(podOf(never, "a"), has(exited("a", 0)))
	input.Ending, input.Previous = true, &v1.PodStatus{Phase: v1.PodSucceeded}
	if got := Generate(input); got.Phase != v1.PodSucceeded {
		t.Errorf("a pod that had ended before: %s", got.Phase)
	}
	input.Previous = nil
	if got := Generate(input); got.Phase != v1.PodRunning {
		t.Errorf("a pod without a status: %s", got.Phase)
	}
	// The node's reason may have come too late for the step that ended it.
	input.Terminal = true
	if got := Generate(input); got.Phase != v1.PodSucceeded {
		t.Errorf("a pod that has ended for another reason: %s", got.Phase)
	}
}

// An eviction replaces the scheduler's condition.
func TestDisruptionAfterPreemption(t *testing.T) {
	pod := podOf(always, "a")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "PreemptionByScheduler"}}
	input := in(pod, has(running("a")))
	input.Failure = &Failure{Reason: "Evicted", Message: "no memory", Disrupted: true}
	c := condition(Generate(input).Conditions, v1.DisruptionTarget)
	if c == nil || c.Reason != "TerminationByKubelet" || c.Message != "no memory" {
		t.Errorf("after an eviction: %v", c)
	}
}

// A terminal phase stays, whatever is reported of the containers later.
func TestTerminalPhaseIsNotLeft(t *testing.T) {
	input := in(podOf(never, "a"), has(exited("a", 0)))
	input.Previous, input.Terminal = &v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}, true
	if got := Generate(input); got.Phase != v1.PodFailed || got.Reason != "Evicted" {
		t.Errorf("failed, then its container is seen to have ended well: %s %q", got.Phase, got.Reason)
	}
	input.Previous, input.Failure = &v1.PodStatus{Phase: v1.PodSucceeded}, &Failure{Reason: "DeadlineExceeded"}
	if got := Generate(input); got.Phase != v1.PodSucceeded || got.Reason != "" {
		t.Errorf("succeeded, then its deadline passes: %s %q", got.Phase, got.Reason)
	}
	input.Previous, input.Failure = nil, nil
	input.Pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "no memory"}
	if got := Generate(input); got.Phase != v1.PodFailed || got.Reason != "Evicted" || got.Message != "no memory" {
		t.Errorf("failed before the agent lost its store: %s %q %q", got.Phase, got.Reason, got.Message)
	}
}

func TestOthersConditionsAreTheirs(t *testing.T) {
	pod := podOf(always, "a")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "PreemptionByScheduler"}}
	before := Generate(in(pod, nil))
	if c := condition(before.Conditions, v1.DisruptionTarget); c == nil || c.Reason != "PreemptionByScheduler" {
		t.Errorf("what the scheduler said: %v", c)
	}
	pod.Status.Conditions = nil
	input := in(pod, nil)
	input.Previous = &before
	if c := condition(Generate(input).Conditions, v1.DisruptionTarget); c != nil {
		t.Errorf("what the scheduler has taken back: %v", c)
	}
}
