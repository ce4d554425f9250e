package lifecycle

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/devnode"
)

// An operator's restart of one container runs its hook before it gets SIGTERM, counts, and touches no other container,
// though the restart policy starts no container again. One of the whole pod restarts its sidecars too, around the other
// containers, and neither the sandbox nor a completed init container.
func TestOperatorRestart(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
initContainers:
- {name: setup, args: [append, /log/setup, run]}
- {name: side, restartPolicy: Always, args: [on-term, /log/order, side]}
containers:
- name: main
  args: [on-term, /log/order, main]
  lifecycle: {preStop: {exec: {command: [/sample, append, /log/order, hook]}}}
- {name: deaf, args: [ignore-term]}`)
		before := p.awaitReady()
		name := p.name + "-" + b.Name
		stdout, stderr, code := b.podctl(t.Context(), "restart", p.name, "-c", "main", "--wait")
		if code != 0 || !strings.HasPrefix(stdout, "pod/"+name+": restarting main (grace period 2s)\n") || !strings.HasSuffix(stdout, "pod/"+name+" restarted\n") {
			t.Errorf("podctl restart: exit code %d, %s%s", code, stdout, stderr)
		}
		p.wrote("order", "hook", "main")
		p.awaitEvent("Killing", "Container main restart requested by an operator, will be restarted")
		// podctl has seen it on a stream of its own.
		s := p.awaitNow("main was restarted", func(s *state) bool { return s.of("main").RestartCount > 0 })
		last := s.endedBefore("main")
		if main := s.of("main"); main.RestartCount != 1 || last == nil || last.ContainerID != before.of("main").ContainerID || last.ExitCode != 143 {
			t.Errorf("main is %+v; want one restart, and the end of %s", main, before.of("main").ContainerID)
		}
		wantUnchangedContainers(p, &before, "deaf", "side")

		stdout, stderr, code = b.podctl(t.Context(), "restart", "pod/"+name)
		if code != 0 || !strings.HasPrefix(stdout, "pod/"+name+": restarting side, main, deaf (grace period 2s)\n") {
			t.Errorf("podctl restart: exit code %d, %s%s", code, stdout, stderr)
		}
		p.awaitNow("all were restarted", func(s *state) bool { return s.of("main").RestartCount > 1 && s.of("deaf").RestartCount > 0 })
		s = p.awaitReady()
		if side, main, deaf := s.of("side"), s.of("main"), s.of("deaf"); side.RestartCount != 1 || main.RestartCount != 2 || deaf.RestartCount != 1 ||
			s.endedBefore("deaf").ExitCode != 137 || s.PodIP != before.PodIP {
			t.Errorf("side %+v, main %+v, deaf %+v, address %s", side, main, deaf, s.PodIP)
		}
		p.wrote("order", "hook", "main", "hook", "main", "side")
		p.wrote("setup", "run")
		p.never("the pod has finished", func(s *state) bool { return s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed })

		if _, stderr, code := b.podctl(t.Context(), "restart", p.name, "-c", "setup"); code != 1 || !strings.Contains(stderr, "init container setup has completed") {
			t.Errorf("of a completed init container: exit code %d, %s", code, stderr)
		}
		if _, stderr, code := b.podctl(t.Context(), "restart", p.name, "-c", "x"); code != 1 || !strings.Contains(stderr, "it has setup, side, main, deaf") {
			t.Errorf("of an unknown container: exit code %d, %s", code, stderr)
		}
	})
}

// wantUnchangedContainers fails unless these containers are the same as in that state.
func wantUnchangedContainers(p *pod, since *state, names ...string) {
	p.t.Helper()
	now := p.now()
	for _, name := range names {
		if then, now := since.of(name), now.of(name); now.ContainerID != then.ContainerID || now.RestartCount != then.RestartCount {
			p.t.Errorf("container %s was %+v, and is now %+v", name, then, now)
		}
	}
}

// An operator's restart ends the backoff of a container that crashes, and resets it.
func TestOperatorRestartEndsCrashLoopBackOff(t *testing.T) {
	// With this backoff no container starts by itself during the test.
	onOwnBench(t, latest, []string{"--crash-loop-backoff-base=1h", "--crash-loop-backoff-max=1h"}, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- {name: main, args: [seq, append, /log/runs, run, ;, exists, /log/up, ;, sleep]}`)
		p.awaitNow("main waits", func(s *state) bool { return s.waitsFor("main") == "CrashLoopBackOff" && s.of("main").RestartCount == 1 })
		// It crashes again. podctl may see it run before that.
		if stdout, stderr, code := b.podctl(t.Context(), "restart", p.name); code == 1 && !strings.Contains(stderr, "ended again with exit code 1") || code > 1 {
			t.Errorf("of a container that crashes again: exit code %d, %s%s", code, stdout, stderr)
		}
		// The first restart after an operator's is immediate, as after the pod's start.
		p.awaitNow("main waits again", func(s *state) bool { return s.waitsFor("main") == "CrashLoopBackOff" && s.of("main").RestartCount == 3 })
		p.wrote("runs", "run", "run", "run", "run")
		p.touch("up")
		if stdout, stderr, code := b.podctl(t.Context(), "restart", p.name, "--wait"); code != 0 {
			t.Errorf("once it can run: exit code %d, %s%s", code, stdout, stderr)
		}
		if s := p.awaitReady(); s.of("main").RestartCount != 4 {
			t.Errorf("main is %+v; want four restarts", s.of("main"))
		}
	})
}

// A restart is completed by the next podexecd if podexecd is killed during the hook, also without podconfigd. podctl
// restart and podctl wait follow the pod over that.
func TestOperatorRestartSurvives(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		p := b.run(t, `
terminationGracePeriodSeconds: 30
restartPolicy: Never
containers:
- name: main
  args: [on-term, /log/end, term]
  # The first time it removes the file, and runs until podexecd is killed. The second time it fails at once.
  lifecycle: {preStop: {exec: {command: [/sample, seq, append, /log/hook, begins, ;, remove, /log/hold, ;, sleep]}}}
- {name: other, args: [sleep]}`)
		p.touch("hold")
		// This pod meets the condition of podctl wait before: its line is printed once podctl follows both pods.
		earlier := b.run(t, `
containers:
- {name: main, args: [sleep]}`)
		earlier.awaitReady()
		before := p.awaitReady()
		if stdout, stderr, code := b.podctl(t.Context(), "restart", earlier.name); code != 0 {
			t.Fatalf("podctl restart: exit code %d, %s%s", code, stdout, stderr)
		}
		check(t, b.Podconfigd.Stop())
		wait := b.startPodctl(t, "wait", earlier.name, p.name, "--timeout="+patience.String(),
			"--for=jsonpath={.status.containerStatuses[?(@.restartCount==1)].name}=main")
		met := func(p *pod) string { return "pod/" + p.name + "-" + b.Name + " condition met\n" }
		wait.await(met(earlier))
		restart := b.startPodctl(t, "restart", p.name, "-c", "main")
		// The answer to the request has arrived. The hook may begin before that.
		restart.await(": restarting main ")
		p.awaitLines("hook", "begins")
		b.restartPodexecd(t, (*devnode.Process).Kill)
		if code := restart.end(nil); code != 0 || !strings.HasSuffix(restart.output.String(), " restarted\n") {
			t.Errorf("podctl restart: exit code %d, %s%s", code, restart.output, restart.stderr)
		}
		if code := wait.end(nil); code != 0 || wait.output.String() != met(earlier)+met(p) || !strings.Contains(wait.stderr.String(), "; reconnecting\n") {
			t.Errorf("podctl wait: exit code %d, %s%s", code, wait.output, wait.stderr)
		}
		p.wrote("end", "term")
		// podctl has seen it on streams of its own.
		p.awaitNow("main was restarted", func(s *state) bool { return s.of("main").RestartCount > 0 })
		s := p.awaitReady()
		if s.of("main").RestartCount != 1 {
			t.Errorf("main is %+v; want one restart", s.of("main"))
		}
		wantUnchangedContainers(p, &before, "other")
		check(t, b.Podconfigd.Start())
	})
}
