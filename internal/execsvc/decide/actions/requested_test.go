package actions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// ask returns the requests of a text such as "a0 b0": containers by their name and attempt.
func ask(text string) Requested {
	r := Requested{}
	for _, id := range strings.Fields(text) {
		r[id[:1]] = id
	}
	return r
}

// String formats the requests in the notation of ask.
func (r Requested) String() string {
	var ids []string
	for _, id := range r {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// Without a policy a case holds for all three: a restart was requested whatever the policy is.
func TestActionsOnRequestedRestarts(t *testing.T) {
	for _, tt := range []struct {
		name            string
		policy          v1.RestartPolicy
		init, asked     string
		has, want, kept string
	}{
		{name: "one of two", asked: "a0", has: "s0 a0@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "both", asked: "a0 b0", has: "s0 a0@s0 b0@s0", want: "kill a0, kill b0, start a1 in s0, start b1 in s0"},
		{name: "stopped", asked: "a0", has: "s0 a0=143@s0 b0@s0", want: "start a1 in s0"},
		{name: "stopped, ended well", asked: "a0", has: "s0 a0=0@s0 b0@s0", want: "start a1 in s0"},
		{name: "all stopped", asked: "a0 b0", has: "s0 a0=0@s0 b0=1@s0", want: "start a1 in s0, start b1 in s0"},
		{name: "another one runs", asked: "a0", has: "s0 a0=0@s0 a1@s0 b0@s0", want: "nothing"},
		{name: "another one is gone from the runtime", asked: "a0", has: "s0 a1@s0 b0@s0", want: "nothing"},
		{name: "unknown state", asked: "a0", has: "s0 a0?@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "the successor wasn't started", asked: "a0", has: "s0 a0=0@s0 a1+@s0 b0@s0", want: "remove a1, start a1 in s0"},
		{name: "the successor was removed", asked: "a0", has: "s0 a0=0@s0 b0@s0", want: "start a1 in s0"},
		{name: "a failed probe", asked: "a0", has: "s0 a0-live@s0 b0@s0", want: "kill a0, start a1 in s0"},
		{name: "the sandbox died", asked: "a0", has: "s0! a0=137@s0 b0@s0", policy: always, want: "kill pod, sandbox s1, start a1 in s1, start b1 in s1"},
		{name: "the sandbox died", asked: "a0", has: "s0! a0=0@s0 b0=0@s0", policy: never, want: "kill pod, sandbox s1, start a1 in s1"},

		{name: "a sidecar", init: "i*", asked: "i0", has: "s0 i0@s0 a0@s0 b0@s0", want: "kill i0, init i1 in s0"},
		{name: "with its sidecar", init: "i*", asked: "i0 a0", has: "s0 i0@s0 a0@s0 b0@s0", want: "kill i0, kill a0, init i1 in s0, start a1 in s0"},
		{name: "with a probed sidecar", init: "i!", asked: "i0 a0", has: "s0 i0+start@s0 a0@s0 b0@s0",
			want: "kill i0, kill a0, init i1 in s0, start a1 in s0", kept: "a"},
		{name: "the sidecar runs", init: "i!", asked: "i0 a0", has: "s0 i0=0@s0 i1@s0 a0=0@s0 b0@s0", want: "start a1 in s0", kept: "a"},
		{name: "the sidecar has started", init: "i!", asked: "i0 a0", has: "s0 i0=0@s0 i1+start@s0 a0=0@s0 b0@s0", want: "start a1 in s0"},
		{name: "the sidecar isn't restarted", init: "i!", asked: "a0", has: "s0 i0@s0 a0@s0 b0@s0", want: "kill a0, start a1 in s0"},

		{name: "an init container that runs", init: "i", asked: "i0", has: "s0 i0@s0", want: "kill i0, init i1 in s0"},
		{name: "an init container that was stopped", init: "i", asked: "i0", has: "s0 i0=143@s0", want: "init i1 in s0"},
		{name: "an init container that ended well when it was stopped", init: "i", asked: "i0", has: "s0 i0=0@s0", want: "init i1 in s0"},
		{name: "an init container that has been passed", init: "i j", asked: "i0", has: "s0 i0=0@s0 j0@s0", want: "nothing"},
		{name: "an init container of a pod that runs", init: "i", asked: "i0", has: "s0 i0=0@s0 a0@s0 b0@s0", want: "nothing"},
	} {
		policies := []v1.RestartPolicy{tt.policy}
		if tt.policy == "" {
			policies = []v1.RestartPolicy{always, onFailure, never}
		}
		for _, policy := range policies {
			t.Run(tt.name+"/"+string(policy), func(t *testing.T) {
				got := Compute(Input{
					Pod: sidecarPod(policy, tt.init), Has: state(t, tt.has), Probes: probes(tt.has), Requested: ask(tt.asked),
				})
				if text(got) != tt.want {
					t.Errorf("has %q, requested %q:\ngot  %s\nwant %s", tt.has, tt.asked, text(got), tt.want)
				}
				for _, k := range got.Kill {
					if !k.Restart {
						t.Errorf("%s is stopped without a successor", k.Container.ID)
					}
				}
				for _, s := range got.Start {
					asked := s.Last != nil && ask(tt.asked)[s.Container.Name] == s.Last.ID
					if s.Requested != asked || s.Await != (s.Container.Name == tt.kept) {
						t.Errorf("start of %s: requested %t, waits for sidecars %t; want %t, %t",
							s.Container.Name, s.Requested, s.Await, asked, s.Container.Name == tt.kept)
					}
				}
			})
		}
	}
}

// The end of a container that was stopped by a request triggers no rule of it.
func TestRequestedRestartIsNoEndByItself(t *testing.T) {
	pod := specOf(never)
	pod.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{rule(restartAll, notIn, 0)}
	has := state(t, "s0 a0=143@s0 b0@s0")
	if got := text(Compute(Input{Pod: pod, Has: has, Requested: ask("a0")})); got != "start a1 in s0" {
		t.Errorf("%s; want only its own restart", got)
	}
	if got := text(Compute(Input{Pod: pod, Has: has, Requested: ask("b0")})); !strings.HasPrefix(got, "restart all after a0") {
		t.Errorf("%s; want the rule of a container that ended by itself to count", got)
	}
	if has.Containers[1].Replaced {
		t.Error("Compute has changed its input")
	}
}

// A container that works waits for its successor's image; one that has failed its probe doesn't.
func TestRequestedRestartHolds(t *testing.T) {
	for has, want := range map[string]bool{"s0 a0@s0 b0@s0": true, "s0 a0-live@s0 b0@s0": false, "s0 a0*@s0 b0@s0": true} {
		got := Compute(Input{Pod: specOf(always), Has: state(t, has), Probes: probes(has), Requested: ask("a0")})
		if len(got.Kill) != 1 || got.Kill[0].Hold != want || !got.Kill[0].Requested || got.Kill[0].Reason != requestedReason {
			t.Errorf("has %q: kill %+v; want it requested, hold %t", has, got.Kill, want)
		}
	}
}

func TestRequest(t *testing.T) {
	for _, tt := range []struct{ name, init, has, before, container, want string }{
		{"the whole pod", "", "s0 a0@s0 b0@s0", "", "", "a0 b0"},
		{"one container", "", "s0 a0@s0 b0@s0", "", "b", "b0"},
		{"its sidecars too, not its init containers", "i* j", "s0 i0@s0 j0=0@s0 a0@s0 b0@s0", "", "", "a0 b0 i0"},
		{"ended ones too", "", "s0 a0=0@s0 b0=1@s0", "", "", "a0 b0"},
		{"the newest of a name", "", "s0 a0=1@s0 a1=1@s0 a2@s0 b0@s0", "", "a", "a2"},
		{"one that wasn't started is left out", "", "s0 a0@s0 b0+@s0", "", "", "a0"},
		{"one that wasn't created is left out", "", "s0 a0@s0", "", "", "a0"},
		{"an init container that runs", "i j", "s0 i0=0@s0 j0@s0", "", "", "j0"},
		{"an init container that has failed", "i", "s0 i0=1@s0", "", "i", "i0"},
		{"unknown", "", "s0 a0?@s0 b0@s0", "", "a", "a0"},

		{"pending", "", "s0 a0@s0 b0@s0", "a0", "a", "a0"},
		{"pending, not started again yet", "", "s0 a0=0@s0 a1+@s0 b0@s0", "a0", "a", "a0"},
		{"complete", "", "s0 a0=0@s0 a1@s0 b0@s0", "a0 b0", "", "a1 b0"},

		{"nothing has started", "", "s0", "", "", "nothing to restart: no container of the pod has started yet"},
		{"it hasn't started", "", "s0 a0@s0", "", "b", "nothing to restart: container b hasn't started yet"},
		{"a completed init container", "i", "s0 i0=0@s0 a0@s0 b0@s0", "", "i", "nothing to restart: init container i has completed, and runs again only in a new sandbox"},
		{"a completed init container, removed", "i", "s0 a0@s0 b0@s0", "", "i", "nothing to restart: init container i has completed, and runs again only in a new sandbox"},
		{"only a completed init container", "i", "s0 i0=0@s0", "", "", "nothing to restart: no container of the pod has started yet"},
		{"an ephemeral container", "", "s0 a0@s0 b0@s0 e0@s0", "", "e", "nothing to restart: container e is ephemeral, and runs only once"},
		{"no such container", "i*", "s0 a0@s0 b0@s0", "", "x", "the pod has no such container: x; it has i, a, b"},
	} {
		pod := sidecarPod(always, tt.init)
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
		got, err := Request(pod, state(t, tt.has), ask(tt.before), tt.container)
		text := got.String()
		if err != nil {
			text = err.Error()
			if known := !strings.Contains(text, "no such container"); known != errors.Is(err, ErrNotRestartable) || known == errors.Is(err, ErrUnknownContainer) {
				t.Errorf("%s: error %v", tt.name, err)
			}
		}
		if text != tt.want {
			t.Errorf("%s: %s; want %s", tt.name, text, tt.want)
		}
	}
}

func TestPending(t *testing.T) {
	for _, tt := range []struct{ init, has, asked, want string }{
		{"", "s0 a0@s0 b0@s0", "a0 b0", "a0 b0"},
		{"", "s0 a0=0@s0 b0@s0", "a0", "a0"},
		{"", "s0 a0=0@s0 a1@s0 b0@s0", "a0 b0", "b0"},
		{"", "s0 a0=0@s0 a1=1@s0 b0@s0", "a0", ""},
		{"", "s0 a0=0@s0 a1+@s0 b0@s0", "a0", "a0"},
		{"", "s0 a1+@s0 b0@s0", "a0", ""},
		{"", "s0 b0@s0", "a0", ""},
		{"", "s0 a0@s0 b0@s0", "c0", ""},
		{"i", "s0 i0@s0", "i0", "i0"},
		{"i", "s0 i0=0@s0", "i0", "i0"},
		{"i", "s0 i0=0@s0 a0@s0 b0@s0", "i0", ""},
		{"i*", "s0 i0@s0 a0@s0 b0@s0", "i0", "i0"},
		{"", "", "a0", ""},
	} {
		if got := ask(tt.asked).Pending(sidecarPod(always, tt.init), state(t, tt.has)).String(); got != tt.want {
			t.Errorf("init %q, has %q, requested %q: %q is pending; want %q", tt.init, tt.has, tt.asked, got, tt.want)
		}
	}
}

// Repeating what Compute returns completes every request, and stops no container twice.
func TestRequestedRestartsComplete(t *testing.T) {
	pod := sidecarPod(never, "i*")
	has, asked := "s0 i0@s0 a0@s0 b0=0@s0", ask("i0 a0 b0")
	var done []string
	for range 3 {
		do := Compute(Input{Pod: pod, Has: state(t, has), Requested: asked})
		if text(do) == "nothing" {
			break
		}
		done = append(done, text(do))
		for _, k := range do.Kill {
			has = strings.Replace(has, k.Container.ID+"@", k.Container.ID+"=0@", 1)
		}
		for _, s := range do.Start {
			has += fmt.Sprintf(" %s%d@s0", s.Container.Name, s.Attempt)
		}
	}
	want := []string{"kill i0, kill a0, init i1 in s0, start a1 in s0, start b1 in s0"}
	if !slices.Equal(done, want) || len(asked.Pending(pod, state(t, has))) > 0 {
		t.Errorf("done %q, pending %s; want %q", done, asked.Pending(pod, state(t, has)), want)
	}
}
