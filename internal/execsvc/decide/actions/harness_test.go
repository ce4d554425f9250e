package actions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// The containers of the pods in these tests: main ones "a" and "b", init ones "i" and "j".
func specOf(policy v1.RestartPolicy, init ...string) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy, Containers: []v1.Container{{Name: "a", Image: "img"}, {Name: "b", Image: "img"}}}}
	for _, name := range init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: name, Image: "img"})
	}
	return pod
}

// state is what the runtime has, in a short notation. First the sandboxes, the latest last: "s0" is ready and has an
// address, "s0!" is dead, "s0~" has no address, "s0h" is in the host's network. Then the containers, each name's latest
// last: "a0@s0" runs, "a0=1@s0" exited with 1, "a0+@s0" was created, "a0?@s0" is unknown, "a0*@s0" runs with another
// definition, "a0=0x@s0" was stopped by this agent to be replaced. What probes say of one that runs: "a0-live@s0",
// "a0-start@s0", "a0+start@s0".
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
			c.State, c.Finished = observed.Exited, time.Unix(int64(n), 1)
			rest, c.Replaced = strings.CutSuffix(rest, "x")
			if _, err := fmt.Sscanf(rest, "=%d", &c.ExitCode); err != nil {
				t.Fatalf("what is %q?", word)
			}
		}
		pod.Containers = append([]observed.Container{c}, pod.Containers...)
	}
	return pod
}

// probes parses probe results in the notation of state.
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

// compute returns the actions for the pod in this state.
func compute(t *testing.T, pod *v1.Pod, text string) Actions {
	t.Helper()
	return Compute(Input{Pod: pod, Has: state(t, text), Probes: probes(text)})
}

// text formats the actions: "kill pod, kill a0, remove b1, sandbox 1, start a1 in s1".
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
