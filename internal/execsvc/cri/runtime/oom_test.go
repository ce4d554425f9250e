package runtime

import (
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A container that was killed a moment ago may have been killed for its memory, unless this agent did it or the runtime
// gives a reason.
func TestMayBeOOM(t *testing.T) {
	s := newSim(t)
	s.mark(s.stopped, "stopped")
	now := s.clock.Now()
	killed := func(change func(*runtimeapi.ContainerStatus)) *runtimeapi.ContainerStatus {
		c := &runtimeapi.ContainerStatus{
			Id: "c", State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: 137, Reason: "Error", FinishedAt: now.UnixNano(),
		}
		change(c)
		return c
	}
	for name, tc := range map[string]struct {
		change func(*runtimeapi.ContainerStatus)
		want   bool
	}{
		"just killed":       {func(*runtimeapi.ContainerStatus) {}, true},
		"for its memory":    {func(c *runtimeapi.ContainerStatus) { c.Reason = "OOMKilled" }, false},
		"by this agent":     {func(c *runtimeapi.ContainerStatus) { c.Id = "stopped" }, false},
		"it ended by 1":     {func(c *runtimeapi.ContainerStatus) { c.ExitCode = 1 }, false},
		"it runs":           {func(c *runtimeapi.ContainerStatus) { c.State = runtimeapi.ContainerState_CONTAINER_RUNNING }, false},
		"killed long since": {func(c *runtimeapi.ContainerStatus) { c.FinishedAt = now.Add(-oomLag).UnixNano() }, false},
		"killed lately":     {func(c *runtimeapi.ContainerStatus) { c.FinishedAt = now.Add(-oomLag + time.Millisecond).UnixNano() }, true},
	} {
		if got := s.mayBeOOM(killed(tc.change)); got != tc.want {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}
