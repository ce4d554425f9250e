package runtime

import (
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// setBack sets the node's clock back by an hour.
func (s *sim) setBack() { s.clock.SetTime(s.clock.Now().Add(-time.Hour)) }

// A sandbox that was made in the future, as it seems, is replaced within sandboxPause.
func TestSandboxAfterClockSetBack(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	if err := s.Server.KillSandbox(s.status(pod).Sandboxes[0].ID); err != nil {
		t.Fatal(err)
	}
	s.setBack()
	if res := s.sync(pod); res.RetryAfter != sandboxPause || res.Err != nil {
		t.Fatalf("%+v; want another try after %v", res, sandboxPause)
	}
	s.clock.Step(sandboxPause)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 1)
}

// A container that has ended in the future, as it seems, waits for its pause and no longer, whether the clock is set
// back before its end was seen or after.
func TestBackoffAfterClockSetBack(t *testing.T) {
	for name, seen := range map[string]bool{"seen before": true, "seen after": false} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			pod := simPod(sample("a"))
			s.mustSync(pod)
			s.clock.Step(time.Second)
			s.exit(pod, "a", 1)
			s.mustSync(pod)
			s.clock.Step(time.Second)
			s.exit(pod, "a", 1)
			if seen {
				s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
			}
			s.setBack()
			s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
			s.clock.Step(10 * time.Second)
			s.mustSync(pod)
			s.wantContainer(pod, "a", observed.Running, 2)
		})
	}
}

// A grace period that was set in the future, as it seems, is no longer for that.
func TestGraceAfterClockSetBack(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "ignore-term"))
	s.mustSync(pod)
	has, later := s.status(pod), s.clock.Now().Add(time.Hour)
	s.RestoreSignaled(has.Containers[0].ID, later)
	done := make(chan error, 1)
	go func() { done <- s.KillPod(t.Context(), pod, has, Grace{Seconds: 30, Since: later}) }()
	s.wantTimers(1, 30*time.Second)
	s.clock.Step(30 * time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// What was killed in the future, as it seems, isn't asked for again and again: its reason counts after oomLag.
func TestKilledBeforeClockSetBack(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	s.exit(pod, "a", exitKilled)
	s.setBack()
	s.status(pod)
	s.clock.Step(oomLag)
	s.status(pod)
	before := s.Server.Calls()["ContainerStatus"]
	s.status(pod)
	if n := s.Server.Calls()["ContainerStatus"] - before; n != 0 {
		t.Errorf("an ended container was asked for %d times more; want it to be remembered", n)
	}
}

// Dead containers from before the clock was set back are removed once they are known for MinAge.
func TestPruneAfterClockSetBack(t *testing.T) {
	s := newSim(t)
	s.with(func(c *Config) { c.MinAge = 30 * time.Minute })
	pod := simPod(sample("a"))
	s.mustSync(pod)
	s.crash(pod, 3)
	s.setBack()
	s.sync(pod)
	s.clock.Step(30 * time.Minute)
	s.sync(pod)
	if got := s.attempts(pod); len(got) != 2 {
		t.Errorf("attempts %v are left; want the running one and the last dead one", got)
	}
}
