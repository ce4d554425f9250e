package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// ends are the ways in which podexecd is stopped.
var ends = []struct {
	name string
	end  func(*devnode.Process) error
}{{"SIGTERM", (*devnode.Process).Stop}, {"SIGKILL", (*devnode.Process).Kill}}

// After any end of podexecd, and in any state of a pod, the new podexecd continues from that state.
func TestPodexecdRestarts(t *testing.T) {
	t.Parallel()
	for _, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			onOwnBench(t, all, nil, func(t *testing.T, b *bench) { testRestart(t, b, c.end) })
		})
	}
}

func testRestart(t *testing.T, b *bench, end func(*devnode.Process) error) {
	ready := b.run(t, `
initContainers:
- {name: side, restartPolicy: Always, args: [sleep]}
containers:
- name: main
  args: [sleep]
  startupProbe: {exec: {command: [/sample, append, /log/startup, asked]}, periodSeconds: 1}
  livenessProbe: {exec: {command: [/sample, exists, /log]}, periodSeconds: 1}
  readinessProbe: {exec: {command: [/sample, append, /log/readiness, asked]}, periodSeconds: 1}`)
	crashing := b.run(t, `
containers:
- {name: main, args: [exit, "1"]}`)
	succeeded := b.run(t, `
restartPolicy: Never
containers:
- {name: main, args: [append, /log/runs, run]}`)
	failed := b.run(t, `
restartPolicy: Never
containers:
- {name: main, args: [seq, append, /log/runs, run, ;, exit, "3"]}`)
	hooked := b.run(t, `
terminationGracePeriodSeconds: 30
containers:
- name: main
  args: [on-term, /log/end, term]
  lifecycle: {preStop: {exec: {command: [/sample, seq, append, /log/hook, begins, ;, sleep, "3"]}}}`)
	graceful := b.run(t, `
terminationGracePeriodSeconds: 30
containers:
- {name: main, args: [on-term, /log/end, term, "4", "5"]}`)
	deaf := b.run(t, `
terminationGracePeriodSeconds: 10
containers:
- {name: main, args: [ignore-term]}`)

	before := ready.awaitReady()
	crash := crashing.await("main waits after a crash", func(s *state) bool { return s.waitsFor("main") == "CrashLoopBackOff" })
	succeeded.awaitPhase(v1.PodSucceeded)
	failed.awaitPhase(v1.PodFailed)
	hooked.awaitReady()
	graceful.awaitReady()
	deaf.awaitReady()
	initializing := b.run(t, `
initContainers:
- {name: setup, args: [seq, append, /log/order, setup, ;, sleep, "3"]}
containers:
- {name: main, args: [seq, append, /log/order, main, ;, sleep]}`)
	initializing.awaitLines("order", "setup")
	hooked.remove()
	graceful.remove()
	removed := time.Now()
	deaf.remove()
	hooked.awaitLines("hook", "begins")
	graceful.awaitLines("end", "term")
	deaf.await("the pod is ending", func(s *state) bool { return s.worker == podexecv1.WorkerState_WORKER_STATE_TERMINATING })
	ending := deaf.now()
	b.awaitNoted(t, ending.of("main"))

	b.restartPodexecd(t, end)

	// Pods that have ended stay so, and running containers aren't touched. The other pods continue.
	initializing.awaitReady()
	initializing.awaitLines("order", "setup", "main")
	hooked.awaitGone()
	hooked.wrote("end", "term")
	graceful.awaitGone()
	graceful.await("main ended with its own exit code", func(s *state) bool { return s.ended("main") != nil && s.ended("main").ExitCode == 5 })
	deaf.awaitGone()
	killed := deaf.await("main was killed", func(s *state) bool { return s.ended("main") != nil })
	// The time of its end is in whole seconds.
	if took := killed.ended("main").FinishedAt.Sub(removed); took < 9*time.Second || took > 10*time.Second+slack {
		t.Errorf("a pod that ignores SIGTERM ended %v after its removal; want its grace period, 10 s, in total", took)
	}
	crashing.awaitNow("main is restarted again", func(s *state) bool { return s.of("main").RestartCount > crash.of("main").RestartCount })
	counts := slices.Collect(func(yield func(int32) bool) {
		for _, s := range crashing.states() {
			if s.of("main").Name != "" && !yield(s.of("main").RestartCount) {
				return
			}
		}
	})
	if !slices.IsSorted(counts) {
		t.Errorf("the restarts of a crashing container are counted as %v", counts)
	}
	asked := len(ready.lines("readiness"))
	eventually(t, "the readiness probe runs", func() error {
		if n := len(ready.lines("readiness")); n < asked+2 {
			return fmt.Errorf("%d requests before, and %d now", asked, n)
		}
		return nil
	})
	wantUnchanged(ready, &before, "main", "side")
	ready.wrote("startup", "asked")
	if s := succeeded.now(); s.Phase != v1.PodSucceeded {
		t.Errorf("a pod that had succeeded is %s", s.Phase)
	}
	if s := failed.now(); s.Phase != v1.PodFailed || s.ended("main") == nil || s.ended("main").ExitCode != 3 {
		t.Errorf("a pod that had failed is %s, main %+v", s.Phase, s.of("main"))
	}
	succeeded.wrote("runs", "run")
	failed.wrote("runs", "run")
}

// awaitNoted waits until podexecd's store has the SIGTERM of a container: from then on the container's grace period
// continues over a restart of podexecd. A new podexecd gives the whole period again to a container without such a record.
func (b *bench) awaitNoted(t *testing.T, c *v1.ContainerStatus) {
	t.Helper()
	_, id, _ := strings.Cut(c.ContainerID, "://")
	eventually(t, "podexecd's store has the SIGTERM of "+c.Name, func() error {
		store, err := os.ReadFile(b.Path("podexecd", "podexecd.db"))
		if err == nil && !bytes.Contains(store, []byte(`"`+id+`":`)) {
			err = errors.New("the container isn't among those that got one")
		}
		return err
	})
}

// wantUnchanged fails unless the pod has been ready since that state, with the same containers.
func wantUnchanged(p *pod, since *state, containers ...string) {
	p.t.Helper()
	was := false
	for _, s := range p.states() {
		was = was || s.is(v1.PodReady)
		if was && (!s.is(v1.PodReady) || !s.is(v1.ContainersReady)) {
			p.t.Errorf("the pod was ready, and then not ready: gone %v, conditions %+v", s.gone, s.Conditions)
			return
		}
	}
	now := p.now()
	for _, name := range containers {
		if then, now := since.of(name), now.of(name); now.ContainerID != then.ContainerID || now.RestartCount != then.RestartCount || !now.Ready {
			p.t.Errorf("container %s was %+v, and is now %+v", name, then, now)
		}
	}
}

// A podexecd that starts while podconfigd isn't running restores its pods from the store. It adopts running pods,
// restarts containers that end, and leaves pods that have ended.
func TestPodexecdAlone(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- {name: main, args: [seq, append, /log/main, run, ;, sleep]}
- {name: other, args: [seq, append, /log/other, run, ;, sleep]}`)
		succeeded := b.run(t, `
restartPolicy: Never
containers:
- {name: main, args: [append, /log/runs, run]}`)
		before := p.awaitReady()
		succeeded.awaitPhase(v1.PodSucceeded)
		p.awaitLines("main", "run")
		p.awaitLines("other", "run")

		check(t, b.Podconfigd.Stop())
		b.restartPodexecd(t, (*devnode.Process).Kill)
		b.kill(t, before.of("main"))
		p.awaitNow("main runs again", func(s *state) bool { return s.of("main").RestartCount == 1 && s.is(v1.PodReady) })
		p.awaitLines("main", "run", "run")
		if s := succeeded.now(); s.Phase != v1.PodSucceeded {
			t.Errorf("a pod that had succeeded is %s", s.Phase)
		}

		check(t, b.Podconfigd.Start())
		later := b.run(t, "containers:\n- {name: main, args: [sleep]}")
		later.awaitReady()
		after := p.now()
		if was, is := before.of("other"), after.of("other"); is.ContainerID != was.ContainerID || is.RestartCount != 0 || after.uid != before.uid {
			t.Errorf("other was %+v, and is now %+v", was, is)
		}
		p.wrote("other", "run")
		succeeded.wrote("runs", "run")
	})
}
