package actions

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// sidecarPod has init containers by name; those that end in "*" are sidecars, those that end in "!" sidecars with a
// startup probe.
func sidecarPod(policy v1.RestartPolicy, init string) *v1.Pod {
	pod := specOf(policy, strings.Fields(init)...)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if strings.HasSuffix(c.Name, "!") {
			c.StartupProbe = &v1.Probe{}
		}
		if name := strings.TrimRight(c.Name, "*!"); name != c.Name {
			c.Name, c.RestartPolicy = name, ptr.To(v1.ContainerRestartPolicyAlways)
		}
	}
	return pod
}

// Without a policy a case holds for all three.
func TestActionsOnSidecars(t *testing.T) {
	for _, tt := range []actionsTest{
		{name: "nothing yet", init: "i* j", has: "", want: "sandbox s0, init i0 in s0"},
		{name: "the next starts once it runs", init: "i* j", has: "s0 i0@s0", want: "init j0 in s0"},
		{name: "the main ones start once it runs", init: "i j*", has: "s0 i0=0@s0 j0@s0", want: "start a0 in s0, start b0 in s0"},
		{name: "all runs", init: "i* j*", has: "s0 i0@s0 j0@s0 a0@s0 b0@s0", want: "nothing"},

		{name: "not started yet", init: "i! j", has: "s0 i0@s0", want: "nothing"},
		{name: "started", init: "i! j", has: "s0 i0+start@s0", want: "init j0 in s0"},
		{name: "startup probe failed", init: "i! j", has: "s0 i0-start@s0", want: "kill i0, init i1 in s0"},
		{name: "the last not started yet", init: "i*  j!", has: "s0 i0@s0 j0@s0", want: "nothing"},
		{name: "restarted and not started yet, the next has run", init: "i! j", has: "s0 i0=1@s0 i1@s0 j0=0@s0", want: "start a0 in s0, start b0 in s0"},

		{name: "died before the next", init: "i* j", has: "s0 i0=1@s0", want: "init i1 in s0"},
		{name: "ended well before the next", init: "i* j", has: "s0 i0=0@s0", want: "init i1 in s0"},
		{name: "died while the next runs", init: "i* j", has: "s0 i0=1@s0 j0@s0", want: "init i1 in s0"},
		{name: "died after the next was done", init: "i* j", has: "s0 i0=1@s0 j0=0@s0", want: "init i1 in s0, start a0 in s0, start b0 in s0"},
		{name: "died while the main ones run", init: "i* j*", has: "s0 i0=0@s0 j0=1@s0 a0@s0 b0@s0", want: "init i1 in s0, init j1 in s0"},
		{name: "removed while the main ones run", init: "i* j", has: "s0 a0@s0 b0@s0", want: "init i0 in s0"},
		{name: "unknown", init: "i*", has: "s0 i0?@s0 a0@s0 b0@s0", want: "kill i0, init i1 in s0"},
		{name: "created and never started", init: "i*", has: "s0 i0+@s0 a0@s0 b0@s0", want: "remove i0, init i0 in s0"},

		{name: "liveness probe failed", init: "i*", has: "s0 i0-live@s0 a0@s0 b0@s0", want: "kill i0, init i1 in s0"},
		{name: "definition changed", init: "i*", has: "s0 i0*@s0 a0@s0 b0@s0", want: "kill i0, init i1 in s0"},
		{name: "in a former sandbox", init: "i*", has: "s0! s1 i0@s0 a0@s1 b0@s1", want: "kill i0, init i1 in s1"},
		{name: "in a former sandbox, its turn has come", init: "i*", has: "s0! s1 i0@s0", want: "kill i0, init i1 in s1"},

		{name: "doesn't keep a pod", policy: never, init: "i*", has: "s0 i0@s0 a0=0@s0 b0=1@s0", want: "kill pod"},
		{name: "doesn't keep a pod", policy: onFailure, init: "i*", has: "s0 i0=1@s0 a0=0@s0 b0=0@s0", want: "kill pod"},
		{name: "new sandbox", policy: always, init: "i* j", has: "s0! i0=137@s0 j0=0@s0 a0=137@s0 b0=137@s0",
			want: "kill pod, sandbox s1, init i1 in s1"},
		{name: "new sandbox before the main ones", policy: never, init: "i*", has: "s0! i0=137@s0", want: "kill pod, sandbox s1, init i1 in s1"},
		{name: "the next failed", policy: never, init: "i* j", has: "s0 i0@s0 j0=1@s0", want: "kill pod"},
		{name: "the next failed", policy: always, init: "i* j", has: "s0 i0@s0 j0=1@s0", want: "init j1 in s0"},
	} {
		policies := []v1.RestartPolicy{tt.policy}
		if tt.policy == "" {
			policies = []v1.RestartPolicy{always, onFailure, never}
		}
		for _, policy := range policies {
			t.Run(tt.name+"/"+string(policy), func(t *testing.T) {
				if got := text(compute(t, sidecarPod(policy, tt.init), tt.has)); got != tt.want {
					t.Errorf("has %q:\ngot  %s\nwant %s", tt.has, got, tt.want)
				}
			})
		}
	}
}

// Init containers that are done may be removed before the others are: the furthest one proves that they were.
func TestActionsOnRemovedInitContainers(t *testing.T) {
	testActions(t, []actionsTest{
		{name: "the second runs", init: "i j", has: "s0 j0@s0", want: "nothing"},
		{name: "the second is done", init: "i j", has: "s0 j0=0@s0", want: "start a0 in s0, start b0 in s0"},
		{name: "the second failed", policy: always, init: "i j", has: "s0 j0=1@s0", want: "init j1 in s0"},
		{name: "the second was made in a former sandbox", policy: always, init: "i j", has: "s0! s1 j0=0@s0", want: "init i0 in s1"},
	})
}

func TestActionsOnEphemeralContainers(t *testing.T) {
	for has, want := range map[string]string{
		"":                           "sandbox s0, init i0 in s0",
		"s0 i0@s0":                   "ephemeral e0 in s0",
		"s0 i0=0@s0 a0@s0 b0@s0":     "ephemeral e0 in s0",
		"s0 i0=0@s0 a0=1@s0 b0@s0":   "ephemeral e0 in s0, start a1 in s0",
		"s0 a0@s0 b0@s0 e0@s0":       "nothing",
		"s0 a0@s0 b0@s0 e0=1@s0":     "nothing",
		"s0 a0@s0 b0@s0 e0?@s0":      "nothing",
		"s0 a0@s0 b0@s0 e0+@s0":      "remove e0, ephemeral e0 in s0",
		"s0! s1 a0@s1 b0@s1 e0=1@s0": "nothing",
	} {
		pod := specOf(always, "i")
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img"}, TargetContainerName: "a",
		}}
		got := compute(t, pod, has)
		if text(got) != want {
			t.Errorf("has %q: %s; want %s", has, text(got), want)
		}
		for _, s := range got.Start {
			if s.Ephemeral && s.Target != "a" {
				t.Errorf("the ephemeral container is for %q; want a", s.Target)
			}
		}
	}
	pod := specOf(never)
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img"}}}
	if got := text(compute(t, pod, "s0 a0=0@s0 b0=0@s0 e0@s0")); got != "kill pod" {
		t.Errorf("%s; an ephemeral container keeps no pod", got)
	}
}
