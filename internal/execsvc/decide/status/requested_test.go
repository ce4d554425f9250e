package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
)

// While a container is stopped for a requested restart, the pod isn't finished, whatever the policy and the exit code.
func TestPhaseDuringARequestedRestart(t *testing.T) {
	for _, tt := range []struct {
		name      string
		requested actions.Requested
		policy    v1.RestartPolicy
		code      int32
		want      v1.PodPhase
	}{
		{"nothing requested, ended well", nil, never, 0, v1.PodSucceeded},
		{"nothing requested, failed", nil, never, 1, v1.PodFailed},
		{"requested, ended well", actions.Requested{"a": "id-a"}, never, 0, v1.PodRunning},
		{"requested, failed", actions.Requested{"a": "id-a"}, never, 1, v1.PodRunning},
		{"requested, ended well, on failure", actions.Requested{"a": "id-a"}, onFailure, 0, v1.PodRunning},
		{"requested for a former container", actions.Requested{"a": "id-former"}, never, 0, v1.PodSucceeded},
	} {
		has := has(exited("a", tt.code))
		input := in(podOf(tt.policy, "a"), has)
		input.Requested = tt.requested
		if got := Generate(input); got.Phase != tt.want {
			t.Errorf("%s: %s; want %s", tt.name, got.Phase, tt.want)
		}
		if has.Containers[0].Replaced {
			t.Errorf("%s: the reading was changed", tt.name)
		}
	}
}

// A rule that restarts all containers doesn't count for a container that was stopped by a request.
func TestRequestedRestartTriggersNoRule(t *testing.T) {
	pod := podOf(never, "a", "b")
	pod.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{143}},
	}}
	for _, requested := range []bool{false, true} {
		input := in(pod, has(exited("a", 143), running("b")))
		if requested {
			input.Requested = actions.Requested{"a": "id-a"}
		}
		got := Generate(input)
		if c := condition(got.Conditions, v1.AllContainersRestarting); c == nil || (c.Status == v1.ConditionTrue) == requested {
			t.Errorf("requested %t: %+v", requested, c)
		}
	}
}

// The restart counts, and the end is the last state.
func TestRequestedRestartCounts(t *testing.T) {
	before := Generate(in(podOf(never, "a"), has(exited("a", 143))))
	input := in(podOf(never, "a"), has(attempt(1, running("a")), exited("a", 143)))
	input.Previous, input.Requested = &before, actions.Requested{"a": "id-a"}
	got := find(Generate(input).ContainerStatuses, "a")
	if last := got.LastTerminationState.Terminated; got.RestartCount != 1 || got.State.Running == nil || last == nil || last.ExitCode != 143 {
		t.Errorf("status %+v; want it running after one restart, and its end with 143", got)
	}
}
