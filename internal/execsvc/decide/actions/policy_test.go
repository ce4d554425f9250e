package actions

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func rule(action v1.ContainerRestartRuleAction, op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
}

const (
	in         = v1.ContainerRestartRuleOnExitCodesOpIn
	notIn      = v1.ContainerRestartRuleOnExitCodesOpNotIn
	restart    = v1.ContainerRestartRuleActionRestart
	restartAll = v1.ContainerRestartRuleActionRestartAllContainers
)

func TestRestarts(t *testing.T) {
	exited := func(code int32) *observed.Container {
		return &observed.Container{State: observed.Exited, ExitCode: code}
	}
	for name, tt := range map[string]struct {
		pod, own v1.RestartPolicy
		rules    []v1.ContainerRestartRule
		last     *observed.Container
		want     bool
	}{
		"no policy":                           {last: exited(0), want: true},
		"always, ended well":                  {pod: always, last: exited(0), want: true},
		"on failure, ended well":              {pod: onFailure, last: exited(0)},
		"on failure, failed":                  {pod: onFailure, last: exited(1), want: true},
		"never, failed":                       {pod: never, last: exited(1)},
		"never, its own is always":            {pod: never, own: always, last: exited(0), want: true},
		"never, its own is on failure":        {pod: never, own: onFailure, last: exited(1), want: true},
		"always, its own is on failure":       {pod: always, own: onFailure, last: exited(0)},
		"always, its own is never":            {pod: always, own: never, last: exited(1)},
		"never ran before":                    {pod: never, want: true},
		"was only made":                       {pod: never, last: &observed.Container{State: observed.Created}, want: true},
		"stopped to be replaced":              {pod: onFailure, last: &observed.Container{State: observed.Exited, Replaced: true}, want: true},
		"runs, never":                         {pod: never, last: &observed.Container{State: observed.Running}},
		"runs, on failure":                    {pod: onFailure, last: &observed.Container{State: observed.Running}, want: true},
		"a rule fits":                         {pod: never, own: never, rules: []v1.ContainerRestartRule{rule(restart, in, 7, 42)}, last: exited(42), want: true},
		"no rule fits":                        {pod: never, own: never, rules: []v1.ContainerRestartRule{rule(restart, in, 7, 42)}, last: exited(1)},
		"a rule fits, not in":                 {pod: never, own: never, rules: []v1.ContainerRestartRule{rule(restart, notIn, 7)}, last: exited(1), want: true},
		"no rule fits, not in":                {pod: never, own: never, rules: []v1.ContainerRestartRule{rule(restart, notIn, 7)}, last: exited(7)},
		"the second rule fits":                {own: never, rules: []v1.ContainerRestartRule{rule(restart, in, 1), rule(restart, in, 2)}, last: exited(2), want: true},
		"a rule of all":                       {own: never, rules: []v1.ContainerRestartRule{rule(restartAll, in, 3)}, last: exited(3), want: true},
		"a rule of an unknown kind":           {own: never, rules: []v1.ContainerRestartRule{rule("Sing", in, 3)}, last: exited(3)},
		"a rule with an unknown operator":     {own: never, rules: []v1.ContainerRestartRule{rule(restart, "Near", 3)}, last: exited(3)},
		"a rule without codes":                {own: never, rules: []v1.ContainerRestartRule{{Action: restart}}, last: exited(3)},
		"rules count only with an own policy": {pod: never, rules: []v1.ContainerRestartRule{rule(restart, in, 3)}, last: exited(3)},
	} {
		c := &v1.Container{Name: "a", RestartPolicyRules: tt.rules}
		if tt.own != "" {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicy(tt.own))
		}
		if got := Restarts(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: tt.pod}}, c, tt.last); got != tt.want {
			t.Errorf("%s: %t; want %t", name, got, tt.want)
		}
	}
}

// A new image doesn't restart a container that its policy doesn't restart.
func TestActionsOnCompletedContainersOfAnotherImage(t *testing.T) {
	for _, tt := range []struct {
		policy    v1.RestartPolicy
		has, want string
	}{
		{never, "s0 a0=0@s0 b0@s0", "nothing"},
		{never, "s0 a0=1@s0 b0@s0", "nothing"},
		{never, "s0 a0=0@s0 b0=0@s0", "kill pod"},
		{onFailure, "s0 a0=0@s0 b0@s0", "nothing"},
		{onFailure, "s0 a0=1@s0 b0@s0", "start a1 in s0"},
		{always, "s0 a0=0@s0 b0@s0", "start a1 in s0"},
		{never, "s0 a0=0x@s0 b0@s0", "start a1 in s0"},
		{never, "s0 a0@s0 b0@s0", "kill a0, start a1 in s0"},
	} {
		pod := specOf(tt.policy)
		pod.Spec.Containers[0].Image = "img:2"
		if got := text(Compute(Input{Pod: pod, Has: state(t, tt.has)})); got != tt.want {
			t.Errorf("%s, has %q: %s; want %s", tt.policy, tt.has, got, tt.want)
		}
	}
}

func TestActionsOnContainersWithRules(t *testing.T) {
	for _, tt := range []struct{ name, own, has, want string }{
		{"a rule fits", "Never", "s0 a0=42@s0 b0=0@s0", "start a1 in s0"},
		{"no rule fits", "Never", "s0 a0=1@s0 b0=0@s0", "kill pod"},
		{"no rule fits, its own policy restarts", "OnFailure", "s0 a0=1@s0 b0=0@s0", "start a1 in s0"},
		{"a rule fits, new sandbox", "Never", "s0! a0=42@s0 b0=0@s0", "kill pod, sandbox s1, start a1 in s1"},
		{"its own policy, new sandbox", "OnFailure", "s0! a0=137@s0 b0=0@s0", "kill pod, sandbox s1, start a1 in s1"},
		{"probe failed, its own policy restarts", "OnFailure", "s0 a0-live@s0 b0=0@s0", "kill a0, start a1 in s0"},
		{"probe failed, rules don't count", "Never", "s0 a0-live@s0 b0@s0", "kill a0"},
	} {
		pod := specOf(never)
		pod.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicy(tt.own))
		pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{rule(restart, in, 42)}
		if got := text(compute(t, pod, tt.has)); got != tt.want {
			t.Errorf("%s: has %q: %s; want %s", tt.name, tt.has, got, tt.want)
		}
	}
}

func TestActionsOnInitContainersWithRules(t *testing.T) {
	for has, want := range map[string]string{
		"s0 i0=42@s0":  "init i1 in s0",
		"s0 i0=1@s0":   "kill pod",
		"s0 i0=0@s0":   "start a0 in s0, start b0 in s0",
		"s0! i0=42@s0": "kill pod, sandbox s1, init i1 in s1",
		"s0! i0=1@s0":  "kill pod",
	} {
		pod := specOf(always, "i")
		pod.Spec.InitContainers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
		pod.Spec.InitContainers[0].RestartPolicyRules = []v1.ContainerRestartRule{rule(restart, in, 42)}
		if got := text(compute(t, pod, has)); got != want {
			t.Errorf("has %q: %s; want %s", has, got, want)
		}
	}
}

func TestActionsOnProbes(t *testing.T) {
	testActions(t, []actionsTest{
		{name: "liveness", policy: always, has: "s0 a0-live@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "liveness", policy: onFailure, has: "s0 a0-live@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "liveness", policy: never, has: "s0 a0-live@s0 b0@s0", want: "kill a0"},
		{name: "startup", policy: always, has: "s0 a0-start@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "startup", policy: never, has: "s0 a0-start@s0 b0@s0", want: "kill a0"},
		{name: "started", has: "s0 a0+start@s0 b0@s0", want: "nothing"},
		{name: "the only one", policy: never, has: "s0 a0-live@s0 b0=0@s0", want: "kill pod"},
		{name: "killed for it, ended well", policy: onFailure, has: "s0 a0=0x@s0 b0@s0", want: "start a1 in s0"},
		{name: "both", policy: always, has: "s0 a0-live@s0 b0-start@s0", want: "kill a0, kill b0, start a1 in s0, start b1 in s0"},
	})
}

func TestActionsGiveGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		has      string
		deletion *int64
		want     int64
	}{
		"liveness":           {has: "s0 a0-live@s0 b0@s0", want: 3},
		"startup":            {has: "s0 a0-start@s0 b0@s0", want: 5},
		"without its own":    {has: "s0 a0@s0 b0-live@s0", want: 40},
		"definition changed": {has: "s0 a0*@s0 b0@s0", want: 40},
		"being deleted":      {has: "s0 a0-live@s0 b0@s0", deletion: ptr.To[int64](7), want: 7},
	} {
		pod := specOf(always)
		pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds = tt.deletion, ptr.To[int64](40)
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](3)}
		pod.Spec.Containers[0].StartupProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](5)}
		got := compute(t, pod, tt.has)
		if len(got.Kill) != 1 || got.Kill[0].Grace != tt.want {
			t.Errorf("%s: kill %+v; want a grace period of %d", name, got.Kill, tt.want)
		}
	}
}

// A working container runs until its successor can start; a broken one is stopped.
func TestActionsHold(t *testing.T) {
	for has, want := range map[string]bool{
		"s0 a0*@s0 b0@s0": true, "s0! s1 a0@s0 b0@s1": true,
		"s0 a0-live@s0 b0@s0": false, "s0 a0-start@s0 b0@s0": false, "s0 a0?@s0 b0@s0": false,
	} {
		if got := compute(t, specOf(always), has); len(got.Kill) != 1 || got.Kill[0].Hold != want || !got.Kill[0].Restart {
			t.Errorf("has %q: kill %+v; want hold %t, and a restart", has, got.Kill, want)
		}
	}
}
