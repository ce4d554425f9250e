package lifecycle

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// The restart policy decides what follows the end of a container.
func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy, code string
		restarts     bool
		phase        v1.PodPhase
	}{
		{"Always", "0", true, v1.PodRunning},
		{"Always", "1", true, v1.PodRunning},
		{"OnFailure", "0", false, v1.PodSucceeded},
		{"OnFailure", "1", true, v1.PodRunning},
		{"Never", "0", false, v1.PodSucceeded},
		{"Never", "1", false, v1.PodFailed},
	} {
		t.Run(c.policy+" "+c.code, func(t *testing.T) {
			on(t, latest, func(t *testing.T, b *bench) {
				p := b.run(t, `
restartPolicy: `+c.policy+`
containers:
- {name: main, args: [seq, append, /log/runs, run, ;, exit, "`+c.code+`"]}`)
				if !c.restarts {
					s := p.awaitPhase(c.phase)
					reason := map[string]string{"0": "Completed", "1": "Error"}[c.code]
					if end := s.ended("main"); end == nil || end.Reason != reason || s.of("main").RestartCount != 0 || s.is(v1.PodReady) {
						t.Errorf("main is %+v; want it ended for %s", s.of("main"), reason)
					}
					p.wrote("runs", "run")
					return
				}
				s := p.await("main waits after a restart", func(s *state) bool { return s.waitsFor("main") == "CrashLoopBackOff" })
				last := s.endedBefore("main")
				if s.Phase != c.phase || last == nil || s.of("main").RestartCount < 1 || s.is(v1.PodReady) {
					t.Errorf("phase %s, main %+v", s.Phase, s.of("main"))
				}
				p.await("main has been restarted twice", func(s *state) bool { return s.of("main").RestartCount == 2 })
			})
		})
	}
}

// The delays before restarts grow, and the texts are the kubelet's.
func TestCrashLoopBackOff(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- {name: main, args: [exit, "1"]}`)
		for _, pause := range []time.Duration{restartBase, restartMax} {
			s := p.await("main waits for "+pause.String(), func(s *state) bool {
				w := s.of("main").State.Waiting
				return w != nil && w.Reason == "CrashLoopBackOff" && strings.Contains(w.Message, "back-off "+pause.String()+" ")
			})
			want := "back-off " + pause.String() + " restarting failed container=main pod=" + p.name + "-" + b.Name + "_default(" + s.uid + ")"
			if got := s.of("main").State.Waiting.Message; got != want {
				t.Errorf("the message is %q; want %q", got, want)
			}
		}
		p.awaitEvent("BackOff", "restarting failed container main in pod "+p.name+"-"+b.Name)
		s := p.await("main waits after a third restart", func(s *state) bool {
			return s.of("main").RestartCount == 3 && s.waitsFor("main") != ""
		})
		if c := s.condition(v1.ContainersReady); c.Status != v1.ConditionFalse || c.Reason != "ContainersNotReady" {
			t.Errorf("condition ContainersReady: %+v", c)
		}
	})
}

// A pod has ended when all its containers have ended. Containers that have succeeded aren't run again when others
// fail.
func TestPodEndsWithItsLastContainer(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: OnFailure
containers:
- {name: good, args: [append, /log/good, run]}
- {name: again, args: [seq, append, /log/again, run, ;, sleep, 3s, ;, fail-once, /log/failed, "1"]}`)
		s := p.await("good has ended, again hasn't", func(s *state) bool { return s.ended("good") != nil && s.runs("again") })
		if s.Phase != v1.PodRunning {
			t.Errorf("the phase is %s", s.Phase)
		}
		s = p.awaitPhase(v1.PodSucceeded)
		if good, again := s.of("good").RestartCount, s.of("again").RestartCount; good != 0 || again != 1 {
			t.Errorf("good was restarted %d times, again %d; want 0 and 1", good, again)
		}
		p.wrote("good", "run")
		p.wrote("again", "run", "run")
	})
}

// A container's own policy overrides the pod's, and its rules override both.
func TestContainerRestartRules(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: never
  restartPolicy: Never
  args: [seq, append, /log/never, run, ;, exit, "1"]
- name: rules
  restartPolicy: Never
  restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
  args: [seq, append, /log/rules, run, ;, fail-once, /log/failed, "42", ;, exit, "7"]
- {name: main, args: [sleep]}`)
		s := p.awaitNow("never and rules have ended and aren't restarted", func(s *state) bool {
			return s.ended("never") != nil && s.ended("rules") != nil && s.of("rules").RestartCount == 1
		})
		if s.Phase != v1.PodRunning || s.ended("rules").ExitCode != 7 || s.endedBefore("rules") == nil || s.endedBefore("rules").ExitCode != 42 {
			t.Errorf("phase %s, rules %+v", s.Phase, s.of("rules"))
		}
		p.wrote("never", "run")
		p.wrote("rules", "run", "run")
	})
}

// A rule can restart the whole pod, init containers included, in the same sandbox.
func TestRestartAllContainers(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
initContainers:
- {name: setup, args: [append, /log/setup, run]}
containers:
- {name: main, args: [seq, append, /log/main, run, ;, sleep]}
- name: watch
  restartPolicy: Never
  restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [88]}}]
  args: [seq, append, /log/watch, run, ;, sleep, 500ms, ;, fail-once, /log/failed, "88", ;, sleep]`)
		ip := p.await("all run", func(s *state) bool { return s.runs("main") && s.runs("watch") }).PodIP
		s := p.awaitNow("all run again", func(s *state) bool {
			return s.runs("main") && s.runs("watch") && s.of("main").RestartCount == 1 && s.of("watch").RestartCount == 1
		})
		p.awaitLines("main", "run", "run")
		p.awaitLines("setup", "run", "run")
		p.awaitLines("watch", "run", "run")
		if s.PodIP != ip || s.Phase != v1.PodRunning {
			t.Errorf("phase %s, address %s; want Running and %s as before", s.Phase, s.PodIP, ip)
		}
	})
}
