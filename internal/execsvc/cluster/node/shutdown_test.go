package node

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// While the machine shuts down the node isn't ready, with the kubelet's reason and message. It is again after a
// cancellation.
func TestShutdownIsNotReady(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var down error
		w.cfg.NotReady = func() []error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return []error{down}
		}
		n := w.run(t)
		pass(time.Minute)
		for _, tc := range []struct {
			err             error
			status          v1.ConditionStatus
			reason, message string
		}{
			{errors.New("node is shutting down"), v1.ConditionFalse, "KubeletNotReady", "node is shutting down"},
			{nil, v1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"},
		} {
			w.set(func() { down = tc.err })
			n.Wake()
			pass(floor)
			synctest.Wait()
			for _, c := range w.api.now().Status.Conditions {
				if c.Type == v1.NodeReady && (c.Status != tc.status || c.Reason != tc.reason || c.Message != tc.message) {
					t.Errorf("%v: Ready is %s, %s: %s", tc.err, c.Status, c.Reason, c.Message)
				}
			}
		}
		// A server that doesn't answer isn't waited for.
		for _, away := range []bool{false, true, false} {
			w.api.goAway(away)
			w.set(func() { down = fmt.Errorf("%v", away) })
			n.Wake()
			pass(defaultUpdateFrequency)
			synctest.Wait()
			if got := n.Failing(); got != away {
				t.Errorf("the server is away: %v; Failing returns %v", away, got)
			}
		}
	})
}
