package actions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// The containers of the pods in these tests: main ones "a" and "b", init ones "i" and "j".
func specOf(policy v1.RestartPolicy, init ...string) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy, Containers: []v1.Container{{Name: "a", Image: "img"}, {Name: "b", Image: "img"}}}}
	for _, name := range init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: name, Image: "img"})
	}
	return pod
}

// state is what the runtime has, in a short notation. First the sandboxes, the latest last: "s0" is ready and has an address,
// "s0!" is dead, "s0~" has no address, "s0h" is in the host's network. Then the containers, each name's latest last: "a0@s0"
// runs, "a0=1@s0" exited with 1, "a0+@s0" was created, "a0?@s0" is unknown, "a0*@s0" runs with another definition, "a0=0x@s0" was
// stopped by this agent to be replaced. What probes say of one that runs: "a0-live@s0", "a0-start@s0", "a0+start@s0".
func state(t *testing.T, text string) *observed.Pod {
	t.Helper()
	pod := &observed.Pod{UID: "u"}
	for n, word := range strings.Fields(text) {
		what, sandbox, isContainer := strings.Cut(word, "@")
		if !isContainer {
			s := observed.Sandbox{ID: word[:2], Attempt: uint32(word[1] - '0'), Ready: true, IPs: []string{"10.0.0.1"}}
			switch word[2:] {
			case "":
			case "!":
				s.Ready, s.IPs = false, nil
			case "~":
				s.IPs = nil
			case "h":
				s.HostNetwork, s.IPs = true, nil
			default:
				t.Fatalf("what is %q?", word)
			}
			pod.Sandboxes = append([]observed.Sandbox{s}, pod.Sandboxes...)
			continue
		}
		c := observed.Container{
			ID: what[:2], Name: what[:1], SandboxID: sandbox, Attempt: uint32(what[1] - '0'), State: observed.Running,
			Hash: criconfig.ContainerHash(&v1.Container{Name: what[:1], Image: "img"}), Created: time.Unix(int64(n), 0),
		}
		switch rest := what[2:]; {
		case rest == "", strings.HasSuffix(rest, "live"), strings.HasSuffix(rest, "start"):
		case rest == "+":
			c.State = observed.Created
		case rest == "?":
			c.State = observed.Unknown
		case rest == "*":
			c.Hash = "other"
		default:
			c.State = observed.Exited
			rest, c.Replaced = strings.CutSuffix(rest, "x")
			if _, err := fmt.Sscanf(rest, "=%d", &c.ExitCode); err != nil {
				t.Fatalf("what is %q?", word)
			}
		}
		pod.Containers = append([]observed.Container{c}, pod.Containers...)
	}
	return pod
}

// probes are what the probes say in the notation of state.
func probes(text string) observed.Probes {
	out := observed.Probes{}
	for _, word := range strings.Fields(text) {
		what, _, _ := strings.Cut(word, "@")
		switch id, says := what[:2], what[2:]; says {
		case "-live":
			out[id] = observed.Probed{Liveness: observed.Failure}
		case "-start":
			out[id] = observed.Probed{Startup: observed.Failure}
		case "+start":
			out[id] = observed.Probed{Startup: observed.Success}
		}
	}
	return out
}

// compute decides for the pod in this state.
func compute(t *testing.T, pod *v1.Pod, text string) Actions {
	t.Helper()
	return Compute(Input{Pod: pod, Has: state(t, text), Probes: probes(text)})
}

// text is what the actions come to: "kill pod, kill a0, remove b1, sandbox 1, start a1 in s1".
func text(a Actions) string {
	var out []string
	if a.RestartAll != nil {
		out = append(out, "restart all after "+a.RestartAll.Last.ID)
	}
	if a.KillPod {
		out = append(out, "kill pod")
	}
	for _, k := range a.Kill {
		out = append(out, "kill "+k.Container.ID)
	}
	for _, c := range a.Remove {
		out = append(out, "remove "+c.ID)
	}
	where := a.SandboxID
	if a.CreateSandbox {
		where = fmt.Sprintf("s%d", a.SandboxAttempt)
		out = append(out, "sandbox "+where)
	}
	for _, s := range a.Start {
		what := "start"
		switch {
		case s.Init:
			what = "init"
		case s.Ephemeral:
			what = "ephemeral"
		}
		out = append(out, fmt.Sprintf("%s %s%d in %s", what, s.Container.Name, s.Attempt, where))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

type actionsTest struct {
	name   string
	policy v1.RestartPolicy
	init   string
	has    string
	want   string
}

func testActions(t *testing.T, tests []actionsTest) {
	t.Helper()
	for _, tt := range tests {
		policies := []v1.RestartPolicy{tt.policy}
		if tt.policy == "" {
			policies = []v1.RestartPolicy{always, onFailure, never}
		}
		for _, policy := range policies {
			t.Run(tt.name+"/"+string(policy), func(t *testing.T) {
				pod := specOf(policy, strings.Fields(tt.init)...)
				got := compute(t, pod, tt.has)
				if text(got) != tt.want {
					t.Errorf("has %q:\ngot  %s\nwant %s", tt.has, text(got), tt.want)
				}
				if got.CreateSandbox && got.SandboxID != "" {
					t.Errorf("goes on in sandbox %s, and makes one", got.SandboxID)
				}
			})
		}
	}
}

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

// The end of the container before counts for the backoff, so it must be the right one.
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

// Compute is pure: what it is given stays as it is.
func TestActionsChangeNothing(t *testing.T) {
	for _, text := range []string{"", "s0! a0=1@s0 b0@s0", "s0 a0?@s0 b0+@s0", "s0 a0*@s0"} {
		has, before := state(t, text), state(t, text)
		Compute(Input{Pod: specOf(always, "i"), Has: has})
		if diff := cmp.Diff(before, has); diff != "" {
			t.Errorf("has changed (-before +after):\n%s", diff)
		}
	}
}
