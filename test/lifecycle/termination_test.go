package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// A container can end within its grace period, and is killed after it.
func TestGracePeriod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args string
		grace      time.Duration
		code       int32
		least      time.Duration
	}{
		{"is honoured", "on-term, /log/end, bye, 1500ms, '5'", 55 * time.Second, 5, 1500 * time.Millisecond},
		{"is enforced", "ignore-term", 3 * time.Second, 137, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, all, func(t *testing.T, b *bench) {
				p := b.run(t, fmt.Sprintf(`
terminationGracePeriodSeconds: %d
containers:
- {name: main, args: [%s]}`, int(c.grace.Seconds()), c.args))
				p.awaitReady()
				began := time.Now()
				p.remove()
				p.await("main is stopping", func(s *state) bool { return s.worker == podexecv1.WorkerState_WORKER_STATE_TERMINATING })
				s := p.await("main has ended", func(s *state) bool { return s.ended("main") != nil })
				p.awaitGone()
				if took := time.Since(began); took < c.least || took > c.least+slack {
					t.Errorf("it took %v to end; want %v or little more", took, c.least)
				}
				if end := s.ended("main"); end.ExitCode != c.code {
					t.Errorf("main ended with %+v; want %d", end, c.code)
				}
				p.awaitEvent("Killing", "Stopping container main")
			})
		})
	}
}

// A container's termination message is in its status: from its file, or, if it failed, from its log.
func TestTerminationMessage(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
containers:
- {name: default, args: [message, /dev/termination-log, last words, "3"]}
- {name: other, terminationMessagePath: /out/words, args: [message, /out/words, other words, "0"]}
- {name: log, terminationMessagePolicy: FallbackToLogsOnError, args: [cat, /no/such/file]}
- {name: file, terminationMessagePolicy: FallbackToLogsOnError, args: [message, /dev/termination-log, written, "1"]}
- {name: fine, terminationMessagePolicy: FallbackToLogsOnError, args: [seq, write, /log/words, unsaid, ;, cat, /log/words]}
- {name: quiet, args: [cat, /no/such/file]}`)
		s := p.awaitPhase(v1.PodFailed)
		for name, want := range map[string]string{
			"default": "last words", "other": "other words", "file": "written", "fine": "", "quiet": "",
		} {
			if end := s.ended(name); end == nil || end.Message != want {
				t.Errorf("%s ended with %+v; want the message %q", name, end, want)
			}
		}
		if end := s.ended("log"); end == nil || !strings.Contains(end.Message, "/no/such/file") {
			t.Errorf("log ended with %+v; want what it logged", end)
		}
	})
}

// A pod that exceeds its activeDeadlineSeconds has failed.
func TestActiveDeadline(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
activeDeadlineSeconds: 10
containers:
- {name: main, args: [sleep]}`)
		s := p.awaitPhase(v1.PodFailed)
		if s.Reason != "DeadlineExceeded" || s.Message != "Pod was active on the node longer than the specified deadline" {
			t.Errorf("reason %q, message %q", s.Reason, s.Message)
		}
		p.awaitNow("main has ended", func(s *state) bool { return s.ended("main") != nil })
		p.awaitEvent("DeadlineExceeded")
	})
}

// A container that exceeds its memory limit is killed, and its status has the reason.
func TestOOMKilled(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
containers:
- {name: main, args: [seq, sleep, 1s, ;, hog, "256"], resources: {limits: {memory: 32Mi}}}`)
		s := p.awaitPhase(v1.PodFailed)
		if end := s.ended("main"); end == nil || end.Reason != "OOMKilled" || end.ExitCode != 137 {
			t.Errorf("main is %+v", s.of("main"))
		}
	})
}

// A pod can be removed at any time.
func TestRemovedEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, spec string
		when       func(s *state) bool
	}{
		{"in backoff", `
containers:
- {name: main, args: [exit, "1"]}`, func(s *state) bool { return s.waitsFor("main") == "CrashLoopBackOff" }},
		{"while init containers run", `
initContainers:
- {name: setup, args: [on-term, /log/end, setup]}
containers:
- {name: main, args: [append, /log/end, main]}`, func(s *state) bool { return s.runs("setup") }},
		{"without its image", `
containers:
- {name: main, image: "podstream.invalid/none:v1", imagePullPolicy: Never}`,
			func(s *state) bool { return s.waitsFor("main") == "ErrImageNeverPull" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, all, func(t *testing.T, b *bench) {
				p := b.run(t, c.spec)
				p.await("the pod is in the wanted state", c.when)
				p.remove()
				p.awaitGone()
				if slices.Contains(p.lines("end"), "main") {
					t.Error("main ran")
				}
			})
		})
	}
}

// An edited static pod is a new pod. It waits until the old pod has ended. After several edits in the meantime, the
// last one applies.
func TestEditWaitsForTheOldPod(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		spec := func(version string) string {
			return `
terminationGracePeriodSeconds: 30
containers:
- {name: main, args: [seq, append, /log/order, ` + version + `, ;, on-term, /log/order, ` + version + `-ends, 6s]}`
		}
		p := b.run(t, spec("v1"))
		first := p.awaitReady()
		p.awaitLines("order", "v1")
		p.write(spec("v2"))
		p.awaitLines("order", "v1", "v1-ends")
		waits := p.await("the new pod waits", func(s *state) bool {
			return s.uid != first.uid && s.worker == podexecv1.WorkerState_WORKER_STATE_WAITING
		})
		if !strings.Contains(waits.waits, first.uid) {
			t.Errorf("it waits for %q; want the pod %s", waits.waits, first.uid)
		}
		p.write(spec("v3"))
		last := p.awaitNow("the last edit runs", func(s *state) bool { return s.uid != first.uid && s.uid != waits.uid && s.is(v1.PodReady) })
		p.awaitLines("order", "v1", "v1-ends", "v3")
		old := p.await("the first has ended", func(s *state) bool { return s.uid == first.uid && s.ended("main") != nil })
		if began := last.of("main").State.Running.StartedAt; began.Before(&old.ended("main").FinishedAt) {
			t.Errorf("the last began at %v, before the first ended at %v", began, old.ended("main").FinishedAt)
		}
	})
}

// If a manifest is restored while its pod ends, the pod runs again after that.
func TestSamePodComesBack(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		const spec = `
terminationGracePeriodSeconds: 30
containers:
- {name: main, args: [seq, append, /log/order, begins, ;, on-term, /log/order, ends, 1s]}`
		p := b.run(t, spec)
		first := p.awaitReady()
		p.awaitLines("order", "begins")
		p.remove()
		p.awaitLines("order", "begins", "ends")
		p.write(spec)
		p.awaitLines("order", "begins", "ends", "begins")
		s := p.awaitNow("it is ready again", func(s *state) bool {
			return s.is(v1.PodReady) && s.of("main").ContainerID != first.of("main").ContainerID
		})
		if s.uid != first.uid || s.of("main").RestartCount != 0 {
			t.Errorf("the restored pod is %s, restarted %d times; the first one was %s", s.uid, s.of("main").RestartCount, first.uid)
		}
	})
}
