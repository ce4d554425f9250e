package eviction

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestUnknownUsageIsLoggedAgain: unknown usage of the pods is logged once each time that it starts.
func TestUnknownUsageIsLoggedAgain(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.broken, h.pods = true, []*v1.Pod{podOf("a", 1, "0"), podOf("b", 1, "0")}
		h.memory(1)
		h.run()
		pass(3 * period)
		if n := h.logged("the usage of some pods is unknown"); n != 1 {
			t.Errorf("while the runtime doesn't answer, unknown usage is logged %d times; want once", n)
		}
		h.set(func() { h.broken = false; h.uses("a", 20, 0); h.uses("b", 10, 0) })
		pass(period)
		h.set(func() { h.broken, h.gone["a"] = true, true })
		pass(terminationPeriod + 3*period)
		if n := h.logged("the usage of some pods is unknown"); n != 2 {
			t.Errorf("after the runtime answered and failed again, unknown usage is logged %d times; want twice", n)
		}
	})
}
