package lifecycle

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/devnode"
)

// requestTimeout is podexecd's time limit for the runtime's answers in these tests. After it, a hung runtime is
// detected.
const requestTimeout = 5 * time.Second

// onOwnRuntime runs the test on the latest containerd, on a separate node and bench, because the test may stop the
// runtime.
func onOwnRuntime(t *testing.T, test func(t *testing.T, node *devnode.Node, b *bench)) {
	t.Parallel()
	for _, r := range latestContainerd {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			node := startNode(t, r.kind, nodes.New)
			t.Cleanup(func() { check(t, node.Close()) })
			b, err := newBench(node, r.kind, "--runtime-request-timeout", requestTimeout.String())
			check(t, err)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("podexecd's log ends with:\n%s", b.Podexecd.LogTail())
				}
				if err := errors.Join(b.clear(), b.close()); err != nil {
					t.Error(err)
				}
			})
			test(t, node, b)
		})
	}
}

// hang stops the runtime's process until the returned function is called, or the test ends.
func hang(t *testing.T, node *devnode.Node) (goOn func()) {
	t.Helper()
	check(t, node.Runtime().Signal(unix.SIGSTOP))
	goOn = func() { check(t, node.Runtime().Signal(unix.SIGCONT)) }
	t.Cleanup(goOn)
	return goOn
}

// If the runtime doesn't answer, the result of an exec probe is unknown, and no container is restarted. If the probe's
// command exceeds its timeout, the container has failed the probe.
func TestExecProbeOfAHungRuntime(t *testing.T) {
	onOwnRuntime(t, func(t *testing.T, node *devnode.Node, b *bench) {
		slow := b.run(t, `
containers:
- name: main
  args: [sleep]
  livenessProbe: {exec: {command: [/sample, sleep]}, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 1}`)
		slow.awaitEvent("Unhealthy", "Liveness probe failed", "timed out after 1s")
		slow.await("main is restarted after the probe's failure", func(s *state) bool { return s.of("main").RestartCount > 0 })
		slow.remove()
		slow.awaitGone()

		// A busy machine takes seconds to answer after the hang.
		p := b.run(t, `
containers:
- name: main
  args: [seq, write, /log/up, "1", ;, sleep]
  livenessProbe:
    {exec: {command: [/sample, exists, /log/up]}, initialDelaySeconds: 3, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}
  readinessProbe: {exec: {command: [/sample, append, /log/asked, ready]}, periodSeconds: 1}`)
		p.awaitReady()
		goOn := hang(t, node)
		p.awaitEvent("Unhealthy", "Liveness probe errored and resulted in unknown state", "didn't answer")
		goOn()
		before := len(p.lines("asked"))
		eventually(t, "probes run again", func() error {
			if len(p.lines("asked")) < before+3 {
				return errors.New("no probe has run")
			}
			return nil
		})
		if s := p.now(); s.of("main").RestartCount != 0 || !s.runs("main") {
			t.Errorf("main is %+v; want it to keep running", s.of("main"))
		}
		if e := p.event("Unhealthy", "Liveness probe failed"); e != nil {
			t.Errorf("event %v; want no result while the runtime hung", e)
		}
		p.untouch("up")
		p.awaitEvent("Killing", "Container main failed liveness probe, will be restarted")
	})
}
