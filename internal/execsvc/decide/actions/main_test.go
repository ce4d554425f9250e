package actions

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// TestChangedDefinition: a container that runs, or was stopped because its definition changed, is replaced by one of
// the new definition, whatever its restart policy.
func TestChangedDefinition(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{always, onFailure, never} {
		pod := specOf(policy)
		pod.Spec.Containers[0].Image = "new"
		for has, want := range map[string]string{
			"s0 a0@s0 b0@s0":     "kill a0, start a1 in s0",
			"s0 a0=0x@s0 b0@s0":  "start a1 in s0",
			"s0 a0=1x@s0 b0@s0":  "start a1 in s0",
			"s0 a0=0x@s0 b0=0x@": "start a1 in s0, start b1 in s0",
		} {
			got := compute(t, pod, has)
			if text(got) != want {
				t.Errorf("%s: has %q: %s; want %s", policy, has, text(got), want)
			}
			for _, k := range got.Kill {
				if !k.Restart || !k.Hold || k.Reason != "definition changed" {
					t.Errorf("%s: has %q: %+v; want it to run until its successor's image is there, and to have one", policy, has, k)
				}
			}
		}
	}
}

// TestRestartOfAMisfit: the restart policy decides whether a stopped misfit has a successor, unless its definition has
// changed.
func TestRestartOfAMisfit(t *testing.T) {
	for policy, restart := range map[v1.RestartPolicy]bool{always: true, onFailure: true, never: false} {
		for _, has := range []string{"s0 a0-live@s0 b0@s0", "s0! s1 a0@s0 b0@s1"} {
			got := compute(t, specOf(policy), has)
			if len(got.Kill) != 1 || got.Kill[0].Restart != restart || (len(got.Start) == 1) != restart {
				t.Errorf("%s: has %q: %+v; want a successor: %v", policy, has, got, restart)
			}
		}
	}
}

// TestVerdictsThatEndContainers: only a failed probe ends a container. One that is undecided or missing doesn't, and an
// undecided startup probe doesn't hide a failed liveness probe.
func TestVerdictsThatEndContainers(t *testing.T) {
	const live, start = "failed liveness probe", "failed startup probe"
	for _, tc := range []struct {
		startup, liveness observed.Verdict
		reason            string
	}{
		{observed.NoProbe, observed.NoProbe, ""},
		{observed.NoProbe, observed.Undecided, ""},
		{observed.NoProbe, observed.Success, ""},
		{observed.NoProbe, observed.Failure, live},
		{observed.Undecided, observed.NoProbe, ""},
		{observed.Undecided, observed.Undecided, ""},
		{observed.Undecided, observed.Success, ""},
		{observed.Undecided, observed.Failure, live},
		{observed.Success, observed.Undecided, ""},
		{observed.Success, observed.Failure, live},
		{observed.Failure, observed.NoProbe, start},
		{observed.Failure, observed.Undecided, start},
		{observed.Failure, observed.Success, start},
		{observed.Failure, observed.Failure, live},
	} {
		got := Compute(Input{
			Pod: specOf(always), Has: state(t, "s0 a0@s0 b0@s0"),
			Probes: observed.Probes{"a0": {Startup: tc.startup, Liveness: tc.liveness, Readiness: observed.Failure}},
		})
		reason := ""
		for _, k := range got.Kill {
			reason += k.Reason
		}
		if reason != tc.reason {
			t.Errorf("startup %d, liveness %d: ended for %q; want %q", tc.startup, tc.liveness, reason, tc.reason)
		}
	}
}
