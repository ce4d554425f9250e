package lifecycle

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A sidecar starts in its order among the init containers. The following containers wait until its startup probe has
// succeeded.
func TestSidecarHoldsBackUntilStarted(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
initContainers:
- {name: first, args: [append, /log/order, first]}
- name: side
  restartPolicy: Always
  args: [seq, append, /log/order, side, ;, sleep]
  startupProbe: {exec: {command: [/sample, exists, /log/go]}, periodSeconds: 1, failureThreshold: 60}
- {name: later, args: [append, /log/order, later]}
containers:
- {name: main, args: [seq, append, /log/order, main, ;, sleep]}`)
		p.awaitEvent("Unhealthy", "Startup probe failed")
		s := p.awaitNow("side runs", func(s *state) bool { return s.runs("side") })
		if started := s.of("side").Started; started == nil || *started || s.waitsFor("later") != "PodInitializing" || s.is(v1.PodInitialized) {
			t.Errorf("before the probe succeeds: side %+v, later %+v", s.of("side"), s.of("later").State)
		}
		p.awaitLines("order", "first", "side")
		p.touch("go")
		s = p.awaitReady()
		p.awaitLines("order", "first", "side", "later", "main")
		if side := s.of("side"); !side.Ready || side.Started == nil || !*side.Started || side.State.Running == nil {
			t.Errorf("once the pod is ready side is %+v", side)
		}
	})
}

// A sidecar that ends is restarted with every policy. The other containers keep running.
func TestSidecarIsRestartedAlways(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Never", "OnFailure"} {
		t.Run(policy, func(t *testing.T) {
			on(t, latest, func(t *testing.T, b *bench) {
				p := b.run(t, `
restartPolicy: `+policy+`
initContainers:
- {name: side, restartPolicy: Always, args: [seq, append, /log/side, run, ;, sleep, 500ms, ;, fail-once, /log/died, "6", ;, sleep]}
containers:
- {name: main, args: [seq, append, /log/main, run, ;, sleep]}`)
				s := p.awaitNow("side runs again", func(s *state) bool { return s.of("side").RestartCount >= 1 && s.runs("side") && s.runs("main") })
				if s.Phase != v1.PodRunning || s.of("main").RestartCount != 0 {
					t.Errorf("phase %s, main restarted %d times", s.Phase, s.of("main").RestartCount)
				}
				p.awaitLines("main", "run")
			})
		})
	}
}

// When the pod is removed, the sidecars end after the other containers, in reverse order. Their preStop hooks run at
// once, so that they can drain connections.
func TestSidecarsEndLastAndInReverse(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
terminationGracePeriodSeconds: 30
initContainers:
- name: outer
  restartPolicy: Always
  args: [on-term, /log/end, outer]
  lifecycle: {preStop: {exec: {command: [/sample, append, /log/hooks, outer]}}}
- {name: inner, restartPolicy: Always, args: [on-term, /log/end, inner, 300ms]}
containers:
- {name: main, args: [on-term, /log/end, main, 500ms]}`)
		p.awaitReady()
		p.remove()
		p.awaitGone()
		p.wrote("end", "main", "inner", "outer")
		p.wrote("hooks", "outer")
	})
}

// A pod whose containers have all ended has ended, though its sidecars still run. They are stopped, and their exit
// codes don't count.
func TestSidecarsDontKeepThePodUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, policy, code string
		want               v1.PodPhase
	}{
		{"success", "Never", "0", v1.PodSucceeded},
		{"failure", "Never", "3", v1.PodFailed},
		{"success on failure", "OnFailure", "0", v1.PodSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, latest, func(t *testing.T, b *bench) {
				p := b.run(t, `
restartPolicy: `+c.policy+`
terminationGracePeriodSeconds: 30
initContainers:
- name: side
  restartPolicy: Always
  args: [on-term, /log/end, side, 100ms, "9"]
  lifecycle: {preStop: {exec: {command: [/sample, append, /log/end, hook]}}}
containers:
- {name: main, args: [exit, "`+c.code+`", 500ms]}`)
				s := p.awaitPhase(c.want)
				if end := s.ended("side"); end == nil || end.ExitCode != 9 || s.of("side").RestartCount != 0 {
					t.Errorf("side is %+v; want it ended with 9", s.of("side"))
				}
				p.wrote("end", "hook", "side")
			})
		})
	}
}
