package lifecycle

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/devnode"
)

// plain is a pod that asks for nothing, critical one that the node can't do without.
const (
	plain = `
containers:
- {name: main, args: [sleep]}`
	critical = `
priorityClassName: system-node-critical
containers:
- {name: main, args: [sleep]}`
)

// TestPressure: on a node that runs out of memory a pod that asked for none is evicted, and no other one of its kind is let in. Critical pods stay.
// Once there is enough, all of them run.
func TestPressure(t *testing.T) {
	// The threshold is more than any machine has. As a hard one it couldn't be: then nothing would be left to give to pods.
	short := []string{"--eviction-soft=memory.available<1000Gi", "--eviction-soft-grace-period=memory.available=1s"}
	alone(t, nil, func(t *testing.T, b *bench) {
		evicted, needed := b.run(t, plain), b.run(t, critical)
		evicted.awaitReady()
		before := needed.awaitReady()

		enough := b.Podexecd.Args
		restartWith(t, b, slices.Concat(enough, short))

		s := evicted.awaitNow("it is evicted", func(s *state) bool {
			return s.Phase == v1.PodFailed && s.Reason == "Evicted" && s.ended("main") != nil
		})
		if !strings.HasPrefix(s.Message, "The node was low on resource: memory. Threshold quantity: 1000Gi, available: ") {
			t.Errorf("it is evicted with %q", s.Message)
		}
		if !slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
		}) {
			t.Errorf("it is evicted with the conditions %v", s.Conditions)
		}
		evicted.awaitEvent("Evicted", "The node was low on resource: memory. ")
		refused, let := b.run(t, plain), b.run(t, critical)
		let.awaitReady()
		s = refused.awaitNow("another one is refused", func(s *state) bool { return s.Phase == v1.PodFailed })
		if want := "Pod was rejected: The node had condition: [MemoryPressure]. "; s.Reason != "Evicted" || s.Message != want {
			t.Errorf("it is refused with %s: %q; want %q", s.Reason, s.Message, want)
		}
		refused.awaitEvent("Evicted", "The node had condition: [MemoryPressure]. ")

		restartWith(t, b, enough)

		evicted.awaitReady()
		refused.awaitReady()
		unharmed(needed, &before, "main")
	})
}

// restartWith ends podexecd and starts it with other flags.
func restartWith(t *testing.T, b *bench, args []string) {
	t.Helper()
	b.restartPodexecd(t, func(p *devnode.Process) error {
		err := p.Stop()
		p.Args = args
		return err
	})
}
