package actions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Without a policy a case holds for all three.
func TestActionsOnSandboxes(t *testing.T) {
	testActions(t, []actionsTest{
		{name: "nothing yet", has: "", want: "sandbox s0, start a0 in s0, start b0 in s0"},
		{name: "sandbox without containers", has: "s0", want: "start a0 in s0, start b0 in s0"},
		{name: "all runs", has: "s0 a0@s0 b0@s0", want: "nothing"},
		{name: "all runs, after restarts", has: "s0! s1 a0=1@s0 a3@s1 b2@s1", want: "nothing"},
		{name: "one missing", has: "s0 a0@s0", want: "start b0 in s0"},
		{name: "sandbox dead, never had containers", has: "s0!", want: "kill pod, sandbox s1, start a0 in s1, start b0 in s1"},
		{name: "sandbox dead, the next too", has: "s0! s1!", want: "kill pod, sandbox s2, start a0 in s2, start b0 in s2"},

		{name: "sandbox dead", policy: always, has: "s0! a0=137@s0 b0=0@s0", want: "kill pod, sandbox s1, start a1 in s1, start b1 in s1"},
		{name: "sandbox dead", policy: onFailure, has: "s0! a0=137@s0 b0=0@s0", want: "kill pod, sandbox s1, start a1 in s1"},
		{name: "sandbox dead", policy: never, has: "s0! a0=137@s0 b0=0@s0", want: "kill pod"},
		{name: "sandbox dead, container runs on", policy: always, has: "s0! a0@s0 b0@s0",
			want: "kill pod, sandbox s1, start a1 in s1, start b1 in s1"},
		{name: "sandbox dead, container runs on", policy: never, has: "s0! a0@s0 b0@s0", want: "kill pod"},

		{name: "sandbox dead, one may have run", policy: onFailure, has: "s0! a0?@s0 b0=0@s0", want: "kill pod, kill a0, sandbox s1, start a1 in s1"},
		{name: "sandbox dead, one may have run", policy: never, has: "s0! a0?@s0 b0=0@s0", want: "kill pod"},

		{name: "two ready", policy: always, has: "s0 s1 a0@s0 b0@s1", want: "kill pod, sandbox s2, start a1 in s2, start b1 in s2"},
		{name: "two ready", policy: never, has: "s0 s1 a0@s0 b0@s1", want: "kill pod"},
		{name: "the older one ready", policy: always, has: "s0 s1! a0@s0 b0@s0", want: "kill pod, sandbox s2, start a1 in s2, start b1 in s2"},
		{name: "host network changed", policy: always, has: "s0h a0@s0 b0@s0", want: "kill pod, sandbox s1, start a1 in s1, start b1 in s1"},
		{name: "no address", policy: always, has: "s0~ a0@s0 b0@s0", want: "kill pod, sandbox s1, start a1 in s1, start b1 in s1"},

		{name: "containers without a sandbox", policy: always, has: "a0@s0", want: "kill pod, sandbox s0, start a1 in s0, start b0 in s0"},
		{name: "dead containers without a sandbox", policy: always, has: "a0=1@s0", want: "sandbox s0, start a1 in s0, start b0 in s0"},
	})
}

func TestActionsInTheHostsNetwork(t *testing.T) {
	for has, want := range map[string]string{
		// It has no address of its own.
		"s0h a0@s0 b0@s0": "nothing",
		"s0 a0@s0 b0@s0":  "kill pod, sandbox s1, start a1 in s1, start b1 in s1",
	} {
		pod := specOf(always)
		pod.Spec.HostNetwork = true
		if got := text(compute(t, pod, has)); got != want {
			t.Errorf("has %q: %s; want %s", has, got, want)
		}
	}
}

func TestActionsOnContainers(t *testing.T) {
	testActions(t, []actionsTest{
		{name: "succeeded", policy: always, has: "s0 a0=0@s0 b0@s0", want: "start a1 in s0"},
		{name: "succeeded", policy: onFailure, has: "s0 a0=0@s0 b0@s0", want: "nothing"},
		{name: "succeeded", policy: never, has: "s0 a0=0@s0 b0@s0", want: "nothing"},
		{name: "failed", policy: always, has: "s0 a0=1@s0 b0@s0", want: "start a1 in s0"},
		{name: "failed", policy: onFailure, has: "s0 a0=1@s0 b0@s0", want: "start a1 in s0"},
		{name: "failed", policy: never, has: "s0 a0=1@s0 b0@s0", want: "nothing"},
		{name: "failed, many times", policy: always, has: "s0 a0=1@s0 a1=1@s0 a2=1@s0 b0@s0", want: "start a3 in s0"},

		{name: "all succeeded", policy: always, has: "s0 a0=0@s0 b0=0@s0", want: "start a1 in s0, start b1 in s0"},
		{name: "all succeeded", policy: onFailure, has: "s0 a0=0@s0 b0=0@s0", want: "kill pod"},
		{name: "all succeeded", policy: never, has: "s0 a0=0@s0 b0=0@s0", want: "kill pod"},
		{name: "all done", policy: never, has: "s0 a0=0@s0 b0=1@s0", want: "kill pod"},
		{name: "one to do again", policy: onFailure, has: "s0 a0=0@s0 b0=1@s0", want: "start b1 in s0"},

		// podexecd was killed between making the container and starting it.
		{name: "created and never started", has: "s0 a0+@s0 b0@s0", want: "remove a0, start a0 in s0"},
		{name: "created again and never started", policy: always, has: "s0 a0=1@s0 a1+@s0 b0@s0", want: "remove a1, start a1 in s0"},

		{name: "unknown", has: "s0 a0?@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "definition changed", has: "s0 a0*@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "definition changed of one that has ended", policy: always, has: "s0 a0*@s0 a1=0@s0 b0@s0", want: "start a2 in s0"},

		{name: "in an old sandbox", policy: always, has: "s0! s1 a0@s0 b0@s1", want: "kill a0, start a1 in s1"},
		{name: "in an old sandbox", policy: never, has: "s0! s1 a0@s0 b0@s1", want: "kill a0"},
		{name: "all in an old sandbox", policy: never, has: "s0! s1 a0@s0 b0@s0", want: "kill pod"},
		{name: "ended in an old sandbox", policy: always, has: "s0! s1 a0=0@s0 b0@s1", want: "start a1 in s1"},
		{name: "ended in an old sandbox", policy: onFailure, has: "s0! s1 a0=0@s0 b0@s1", want: "nothing"},
		{name: "created in an old sandbox", has: "s0! s1 a0+@s0 b0@s1", want: "remove a0, start a0 in s1"},
	})
}

func TestActionsOnInitContainers(t *testing.T) {
	testActions(t, []actionsTest{
		{name: "nothing yet", init: "i j", has: "", want: "sandbox s0, init i0 in s0"},
		{name: "sandbox only", init: "i j", has: "s0", want: "init i0 in s0"},
		{name: "the first runs", init: "i j", has: "s0 i0@s0", want: "nothing"},
		{name: "the first is done", init: "i j", has: "s0 i0=0@s0", want: "init j0 in s0"},
		{name: "the second runs", init: "i j", has: "s0 i0=0@s0 j0@s0", want: "nothing"},
		{name: "all are done", init: "i j", has: "s0 i0=0@s0 j0=0@s0", want: "start a0 in s0, start b0 in s0"},
		{name: "all runs", init: "i j", has: "s0 i0=0@s0 j0=0@s0 a0@s0 b0@s0", want: "nothing"},
		{name: "removed since", init: "i j", has: "s0 a0@s0 b0@s0", want: "nothing"},
		{name: "removed since, one main container missing", init: "i j", has: "s0 a0@s0", want: "start b0 in s0"},

		{name: "the first failed", policy: always, init: "i j", has: "s0 i0=1@s0", want: "init i1 in s0"},
		{name: "the first failed", policy: onFailure, init: "i j", has: "s0 i0=1@s0", want: "init i1 in s0"},
		{name: "the first failed", policy: never, init: "i j", has: "s0 i0=1@s0", want: "kill pod"},
		{name: "the second failed", policy: always, init: "i j", has: "s0 i0=0@s0 j0=1@s0", want: "init j1 in s0"},
		{name: "the second failed", policy: never, init: "i j", has: "s0 i0=0@s0 j0=1@s0", want: "kill pod"},
		{name: "went well in the end", policy: always, init: "i", has: "s0 i0=1@s0 i1=0@s0", want: "start a0 in s0, start b0 in s0"},

		{name: "created and never started", init: "i j", has: "s0 i0+@s0", want: "remove i0, init i0 in s0"},
		{name: "unknown", policy: always, init: "i j", has: "s0 i0?@s0", want: "kill i0, init i1 in s0"},
		{name: "unknown", policy: onFailure, init: "i j", has: "s0 i0?@s0", want: "kill i0, init i1 in s0"},
		{name: "unknown", policy: never, init: "i j", has: "s0 i0?@s0", want: "kill pod"},

		{name: "new sandbox", policy: always, init: "i j", has: "s0! i0=0@s0 j0=0@s0 a0=137@s0 b0=137@s0", want: "kill pod, sandbox s1, init i1 in s1"},
		{name: "in the new sandbox", policy: always, init: "i j", has: "s0! s1 i0=0@s0 j0=0@s0 a0=137@s0 b0=137@s0 i1=0@s1", want: "init j1 in s1"},
		{name: "done in the new sandbox", policy: always, init: "i", has: "s0! s1 i0=0@s0 a0=137@s0 b0=137@s0 i1=0@s1",
			want: "start a1 in s1, start b1 in s1"},
		{name: "new sandbox, one main container has succeeded", policy: onFailure, init: "i", has: "s0! i0=0@s0 a0=0@s0 b0=137@s0",
			want: "kill pod, sandbox s1, init i1 in s1"},
		{name: "done in the new sandbox, one main container has succeeded", policy: onFailure, init: "i",
			has: "s0! s1 i0=0@s0 a0=0@s0 b0=137@s0 i1=0@s1", want: "start b1 in s1"},
		{name: "sandbox died under it", policy: always, init: "i j", has: "s0! i0=137@s0", want: "kill pod, sandbox s1, init i1 in s1"},
		{name: "sandbox died under it", policy: never, init: "i j", has: "s0! i0=137@s0", want: "kill pod"},
		{name: "sandbox changes under it", policy: never, init: "i j", has: "s0~ i0@s0", want: "kill pod"},
		{name: "sandbox died after it", policy: never, init: "i j", has: "s0! i0=0@s0", want: "kill pod, sandbox s1, init i1 in s1"},
		{name: "created in the dead sandbox", policy: never, init: "i", has: "s0! i0+@s0", want: "kill pod, remove i0, sandbox s1, init i0 in s1"},

		{name: "all done", policy: never, init: "i", has: "s0 i0=0@s0 a0=0@s0 b0=1@s0", want: "kill pod"},
		{name: "all done, sandbox dead", policy: onFailure, init: "i", has: "s0! i0=0@s0 a0=0@s0 b0=0@s0", want: "kill pod"},
		{name: "all done, sandbox dead", policy: never, init: "i", has: "s0! i0=0@s0 a0=0@s0 b0=1@s0", want: "kill pod"},
	})
}

// The backoff starts at the end of the previous container, so it must be the right one.
func TestActionsNameTheContainerBefore(t *testing.T) {
	got := compute(t, specOf(always), "s0 a0=1@s0 a1=2@s0 b0@s0")
	if len(got.Start) != 1 || got.Start[0].Last == nil || got.Start[0].Last.ID != "a1" {
		t.Errorf("start %+v; want it after a1", got.Start)
	}
}

func TestActionsGiveReasons(t *testing.T) {
	var reasons []string
	for _, has := range []string{"s0 a0*@s0 b0@s0", "s0 a0?@s0 b0@s0", "s0! s1 a0@s0 b0@s1"} {
		for _, k := range compute(t, specOf(always), has).Kill {
			reasons = append(reasons, k.Reason)
		}
	}
	want := []string{"definition changed", "is in an unknown state", "runs in a former sandbox"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// Compute is pure: its input doesn't change.
func TestActionsChangeNothing(t *testing.T) {
	for _, text := range []string{"", "s0! a0=1@s0 b0@s0", "s0 a0?@s0 b0+@s0", "s0 a0*@s0"} {
		has, before := state(t, text), state(t, text)
		Compute(Input{Pod: specOf(always, "i"), Has: has})
		if diff := cmp.Diff(before, has); diff != "" {
			t.Errorf("has changed (-before +after):\n%s", diff)
		}
	}
}
