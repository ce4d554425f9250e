package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// rules are a container's own restart policy and rules.
func rules(policy v1.ContainerRestartPolicy, action v1.ContainerRestartRuleAction, codes ...int32) func(*v1.Container) {
	return func(c *v1.Container) {
		c.RestartPolicy = ptr.To(policy)
		if len(codes) > 0 {
			c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
				Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes,
			}}}
		}
	}
}

func TestPhaseByContainersOwnPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		pod    *v1.Pod
		change func(*v1.Container)
		ended  []observed.Container
		want   v1.PodPhase
	}{
		"never, but it restarts always":   {podOf(never, "a"), rules(v1.ContainerRestartPolicyAlways, ""), []observed.Container{exited("a", 0)}, v1.PodRunning},
		"always, but it restarts never":   {podOf(always, "a"), rules(v1.ContainerRestartPolicyNever, ""), []observed.Container{exited("a", 1)}, v1.PodFailed},
		"always, but it never; well":      {podOf(always, "a"), rules(v1.ContainerRestartPolicyNever, ""), []observed.Container{exited("a", 0)}, v1.PodSucceeded},
		"never, but for this exit code":   {podOf(never, "a"), rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestart, 42), []observed.Container{exited("a", 42)}, v1.PodRunning},
		"never, with another exit code":   {podOf(never, "a"), rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestart, 42), []observed.Container{exited("a", 1)}, v1.PodFailed},
		"one of two is restarted":         {podOf(never, "a", "b"), rules(v1.ContainerRestartPolicyOnFailure, ""), []observed.Container{exited("a", 1), exited("b", 1)}, v1.PodRunning},
		"init, never, but for this code":  {podOf(never, "init1", "a"), rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestart, 42), []observed.Container{exited("init1", 42)}, v1.PodPending},
		"init, always, but it never does": {podOf(always, "init1", "a"), rules(v1.ContainerRestartPolicyNever, ""), []observed.Container{exited("init1", 1)}, v1.PodFailed},
	} {
		for _, list := range [][]v1.Container{c.pod.Spec.InitContainers, c.pod.Spec.Containers} {
			if len(list) > 0 {
				c.change(&list[0])
				break
			}
		}
		if got := Generate(in(c.pod, has(c.ended...))); got.Phase != c.want {
			t.Errorf("%s: %s, want %s", name, got.Phase, c.want)
		}
	}
}

// TestAllContainersRestart follows a pod of which one container's end restarts all, though none would restart by
// itself.
func TestAllContainersRestart(t *testing.T) {
	pod := podOf(never, "init1", "a", "b", "done")
	rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestartAllContainers, 42)(&pod.Spec.Containers[0])
	var before *v1.PodStatus
	steps := []struct {
		name      string
		has       *observed.Pod
		phase     v1.PodPhase
		restarts  v1.ConditionStatus
		bRestarts int32
	}{
		{"all well", has(running("a"), running("b"), exited("done", 0), exited("init1", 0)), v1.PodRunning, v1.ConditionFalse, 0},
		{"a ends", has(exited("a", 42), running("b"), exited("done", 0), exited("init1", 0)), v1.PodRunning, v1.ConditionTrue, 0},
		{"b is killed", has(exited("a", 42), exited("b", 137), exited("done", 0), exited("init1", 0)), v1.PodRunning, v1.ConditionTrue, 0},
		{"others are removed", has(exited("a", 42)), v1.PodRunning, v1.ConditionTrue, 1},
		{"all are removed", has(), v1.PodRunning, v1.ConditionFalse, 1},
		{"init again", has(second("init1")), v1.PodPending, v1.ConditionFalse, 1},
		{"main again", has(second("a"), second("b"), second("done"), exited("init1", 0)), v1.PodRunning, v1.ConditionFalse, 1},
	}
	for _, step := range steps {
		input := in(pod, step.has)
		input.Previous = before
		got := Generate(input)
		if got.Phase != step.phase {
			t.Errorf("%s: phase %s, want %s", step.name, got.Phase, step.phase)
		}
		if c := condition(got.Conditions, v1.AllContainersRestarting); c == nil || c.Status != step.restarts {
			t.Errorf("%s: AllContainersRestarting %+v, want %s", step.name, c, step.restarts)
		}
		if c := condition(got.Conditions, v1.PodInitialized); c.Status != v1.ConditionTrue {
			t.Errorf("%s: Initialized is %s: it was before", step.name, c.Status)
		}
		if b := got.ContainerStatuses[1]; b.RestartCount != step.bRestarts {
			t.Errorf("%s: b has %d restarts, want %d", step.name, b.RestartCount, step.bRestarts)
		}
		input.Previous = &got
		if diff := cmp.Diff(got, Generate(input)); diff != "" {
			t.Errorf("%s, the second time (-first +second):\n%s", step.name, diff)
		}
		before = &got
	}
}

// second is a container after a removed one, counted from zero again.
func second(name string) observed.Container {
	c := running(name)
	c.ID += "-second"
	return c
}

// A container that was stopped for its successor hasn't ended the pod.
func TestReplacedContainer(t *testing.T) {
	c := exited("a", 143)
	c.Replaced = true
	if got := Generate(in(podOf(never, "a"), has(c))); got.Phase != v1.PodRunning {
		t.Errorf("phase %s", got.Phase)
	}
}

// A container that was stopped for its successor hasn't ended the pod either while the successor is created and not yet
// started, for example because podexecd was killed in between.
func TestReplacedContainerWithCreatedSuccessor(t *testing.T) {
	first := exited("a", 0)
	first.Replaced = true
	if got := Generate(in(podOf(onFailure, "a", "b"), has(attempt(1, created("a")), first, exited("b", 0)))); got.Phase != v1.PodRunning {
		t.Errorf("phase %s", got.Phase)
	}
}

func TestRestartCountNeverFalls(t *testing.T) {
	pod := podOf(always, "a")
	step := func(previous *v1.PodStatus, c observed.Container) *v1.PodStatus {
		input := in(pod, has(c))
		input.Previous = previous
		got := Generate(input)
		return &got
	}
	s := step(nil, attempt(4, exited("a", 1)))
	s = step(s, second("a"))
	if got := s.ContainerStatuses[0].RestartCount; got != 5 {
		t.Errorf("after one with 4 restarts comes one with %d; want 5", got)
	}
	if again := step(s, second("a")); again.ContainerStatuses[0].RestartCount != 5 {
		t.Errorf("the same one has %d the next time", again.ContainerStatuses[0].RestartCount)
	}
	made := step(nil, created("a"))
	if got := step(made, second("a")).ContainerStatuses[0].RestartCount; got != 0 {
		t.Errorf("in the place of one that never started comes one with %d restarts", got)
	}
}
