package lifecycle

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Init containers run in order, each to its end, and before the other containers. Until then the pod is Pending, not
// initialized, and its status has the reason.
func TestInitContainersRunInOrder(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
initContainers:
- {name: one, args: [seq, sleep, 3s, ;, append, /log/order, one]}
- {name: two, args: [append, /log/order, two]}
containers:
- {name: main, args: [seq, append, /log/order, main, ;, sleep]}`)
		s := p.await("main waits for the first", func(s *state) bool { return s.runs("one") })
		if s.Phase != v1.PodPending || s.waitsFor("main") != "PodInitializing" || s.waitsFor("two") != "PodInitializing" {
			t.Errorf("while the first runs: phase %s, main waits for %q, two for %q", s.Phase, s.waitsFor("main"), s.waitsFor("two"))
		}
		if c := s.condition(v1.PodInitialized); c.Status != v1.ConditionFalse || c.Reason != "ContainersNotInitialized" {
			t.Errorf("while the first runs: condition %+v", c)
		}
		s = p.awaitReady()
		p.awaitLines("order", "one", "two", "main")
		if !s.is(v1.PodInitialized) || s.ended("one").Reason != "Completed" || !s.of("two").Ready {
			t.Errorf("ready, with init containers %+v, conditions %+v", s.InitContainerStatuses, s.Conditions)
		}
		p.never("main runs before two has ended", func(s *state) bool { return s.runs("main") && s.ended("two") == nil })
	})
}

// An init container that fails is restarted with a growing delay, and the others wait for it. After it has succeeded
// it isn't run again, regardless of the other containers.
func TestFailingInitContainerIsRestarted(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Always", "OnFailure"} {
		t.Run(policy, func(t *testing.T) {
			on(t, latest, func(t *testing.T, b *bench) {
				p := b.run(t, `
restartPolicy: `+policy+`
initContainers:
- {name: setup, args: [seq, append, /log/order, setup, ;, fail-once, /log/first, "3", ;, fail-once, /log/second, "4"]}
containers:
- {name: main, args: [seq, append, /log/order, main, ;, fail-once, /log/third, "5", ;, sleep]}`)
				s := p.await("setup has failed", func(s *state) bool { return s.of("setup").RestartCount > 0 || s.ended("setup") != nil })
				if s.Phase != v1.PodPending || s.waitsFor("main") != "PodInitializing" || s.is(v1.PodInitialized) {
					t.Errorf("once setup has failed: phase %s, main waits for %q", s.Phase, s.waitsFor("main"))
				}
				s = p.awaitNow("main has been restarted, and runs", func(s *state) bool { return s.runs("main") && s.of("main").RestartCount == 1 })
				p.awaitLines("order", "setup", "setup", "setup", "main", "main")
				if n := s.of("setup").RestartCount; n != 2 {
					t.Errorf("setup was restarted %d times; want 2", n)
				}
			})
		})
	}
}

// With the policy Never, an init container that fails ends the pod.
func TestFailingInitContainerEndsThePod(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
initContainers:
- {name: good, args: [exit, "0"]}
- {name: bad, args: [exit, "7"]}
- {name: later, args: [append, /log/order, later]}
containers:
- {name: main, args: [append, /log/order, main]}`)
		s := p.awaitPhase(v1.PodFailed)
		if end := s.ended("bad"); end == nil || end.ExitCode != 7 || end.Reason != "Error" {
			t.Errorf("bad ended with %+v; want code 7", end)
		}
		if s.ended("main") != nil || s.is(v1.PodInitialized) || s.is(v1.PodReady) {
			t.Errorf("the pod has failed, main is %+v, conditions %+v", s.of("main").State, s.Conditions)
		}
		p.wrote("order")
	})
}

// An init container whose image can't be pulled blocks the other containers, and its status has the reason.
func TestInitContainerWithoutImage(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
initContainers:
- {name: setup, image: `+sharedHub(t).address+`/public/absent:v1}
containers:
- {name: main}`)
		p.await("the pull has failed", func(s *state) bool { return s.waitsFor("setup") == "ErrImagePull" })
		s := p.await("the next pull is delayed", func(s *state) bool { return s.waitsFor("setup") == "ImagePullBackOff" })
		if s.Phase != v1.PodPending || s.waitsFor("main") != "PodInitializing" || s.is(v1.PodInitialized) {
			t.Errorf("phase %s, main waits for %q, conditions %+v", s.Phase, s.waitsFor("main"), s.Conditions)
		}
	})
}
