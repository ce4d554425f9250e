package lifecycle

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/devnode"
)

// requestTimeout is how long podexecd waits for the runtime's answers in these tests. A hung runtime is noticed that
// soon.
const requestTimeout = 5 * time.Second

// onOwnRuntime runs the test on each real runtime, each on a node and a bench of its own: the test may stop the
// runtime.
func onOwnRuntime(t *testing.T, test func(t *testing.T, node *devnode.Node, b *bench)) {
	t.Parallel()
	for _, r := range runtimes[:2] {
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

// hang stops the node's runtime until the returned function is called, or the test ends.
func hang(t *testing.T, node *devnode.Node) (goOn func()) {
	t.Helper()
	check(t, node.Runtime().Signal(unix.SIGSTOP))
	goOn = func() { check(t, node.Runtime().Signal(unix.SIGCONT)) }
	t.Cleanup(goOn)
	return goOn
}

// A runtime that doesn't answer says nothing of a container: an exec probe has no verdict then, and nothing is
// restarted for it. A probe's command that takes too long is the container's failure.
func TestExecProbeOfAHungRuntime(t *testing.T) {
	onOwnRuntime(t, func(t *testing.T, node *devnode.Node, b *bench) {
		slow := b.run(t, `
containers:
- name: main
  args: [sleep]
  livenessProbe: {exec: {command: [/sample, sleep]}, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 1}`)
		slow.awaitEvent("Unhealthy", "Liveness probe failed", "timed out after 1s")
		slow.await("main is restarted for it", func(s *state) bool { return s.of("main").RestartCount > 0 })
		slow.remove()
		slow.awaitGone()

		p := b.run(t, `
containers:
- name: main
  args: [seq, write, /log/up, "1", ;, sleep]
  livenessProbe:
    {exec: {command: [/sample, exists, /log/up]}, initialDelaySeconds: 3, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 1}
  readinessProbe: {exec: {command: [/sample, append, /log/asked, ready]}, periodSeconds: 1}`)
		p.awaitReady()
		goOn := hang(t, node)
		p.awaitEvent("Unhealthy", "Liveness probe errored and resulted in unknown state", "didn't answer")
		goOn()
		before := len(p.lines("asked"))
		eventually(t, "probes are asked again", func() error {
			if len(p.lines("asked")) < before+3 {
				return errors.New("they aren't")
			}
			return nil
		})
		if s := p.now(); s.of("main").RestartCount != 0 || !s.runs("main") {
			t.Errorf("main is %+v; want it to run on", s.of("main"))
		}
		if e := p.event("Unhealthy", "Liveness probe failed"); e != nil {
			t.Errorf("event %v; want no verdict while the runtime hung", e)
		}
		p.untouch("up")
		p.awaitEvent("Killing", "Container main failed liveness probe, will be restarted")
	})
}
