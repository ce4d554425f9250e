package runtime

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// kill kills the pod in a goroutine of its own.
func (s *sim) kill(pod *v1.Pod, has *observed.Pod, grace int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.KillPod(s.t.Context(), pod, has, Grace{Seconds: grace}) }()
	return done
}

// wantTimers waits until the runtime waits for that many containers to end, and checks the time-out.
func (s *sim) wantTimers(n int, want time.Duration) {
	s.t.Helper()
	for range n {
		if got := <-s.clock.Set; got != want {
			s.t.Fatalf("a container gets %v to end; want %v", got, want)
		}
	}
}

func TestKillPodGrace(t *testing.T) {
	for grace, want := range map[int64]time.Duration{30: 30 * time.Second, 1: 2 * time.Second, 0: 2 * time.Second, -5: 2 * time.Second, math.MaxInt64: math.MaxInt32 * time.Second} {
		s := newSim(t)
		pod := simPod(sample("a", "ignore-term"), sample("b", "ignore-term"))
		s.mustSync(pod)
		done := s.kill(pod, s.status(pod), grace)
		// Both at once: they share the grace period.
		s.wantTimers(2, want)
		s.clock.Step(want)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		has := s.status(pod)
		if has.Active() || has.Latest("a").ExitCode != 137 || has.Latest("b").ExitCode != 137 {
			t.Errorf("grace %d: pod %+v; want both killed", grace, has)
		}
	}
}

func TestKillPodEndsBySignal(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b", "exit", "0"))
	s.mustSync(pod)
	if err := <-s.kill(pod, s.status(pod), 30); err != nil {
		t.Fatal(err)
	}
	has := s.status(pod)
	if has.Active() || has.Latest("a").ExitCode != 143 || has.Latest("b").ExitCode != 0 {
		t.Errorf("pod %+v", has)
	}
}

func TestKillPodOfWhatIsGone(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	has := s.status(pod)
	for range 2 {
		if err := <-s.kill(pod, has, 30); err != nil {
			t.Fatal(err)
		}
	}
	s.Server.DropAll()
	if err := <-s.kill(pod, has, 30); err != nil {
		t.Fatal(err)
	}
	// Not every runtime follows the CRI here.
	s.setFault(func(string) error { return status.Error(codes.NotFound, "no such thing") })
	if err := <-s.kill(pod, has, 30); err != nil {
		t.Error(err)
	}
	if err := s.Purge(t.Context(), pod, has); err != nil {
		t.Error(err)
	}
}

// The error has the form of the kubelet's event FailedKillPod, with all containers that couldn't be stopped.
func TestKillPodFails(t *testing.T) {
	for method, want := range map[string]string{
		"StopContainer": `[failed to "KillContainer" for "a" with KillContainerError: "rpc error: code = Unavailable desc = the runtime went away", ` +
			`failed to "KillContainer" for "b" with KillContainerError: "rpc error: code = Unavailable desc = the runtime went away"]`,
		"StopPodSandbox": `failed to "KillPodSandbox" for "uid-1" with KillPodSandboxError: "rpc error: code = Unavailable desc = the runtime went away"`,
	} {
		s := newSim(t)
		pod := simPod(sample("a"), sample("b"))
		s.mustSync(pod)
		s.setFault(failing(method, errDown))
		has := s.status(pod)
		slices.SortFunc(has.Containers, func(x, y observed.Container) int { return cmp.Compare(x.Name, y.Name) })
		if err := <-s.kill(pod, has, 30); err == nil || err.Error() != want {
			t.Errorf("%s failed: the error is %v; want %s", method, err, want)
		}
	}
}

// A container's grace period starts at its SIGTERM, over failures and restarts of the agent; until its SIGTERM, an
// earlier termination of the pod takes nothing from it.
func TestKillPodGraceOfEach(t *testing.T) {
	const grace = 30 * time.Second
	for _, tt := range []struct {
		name string
		// signaled and since are how long ago the container had its SIGTERM and the grace period was set. Negative: it
		// hadn't, and it wasn't.
		signaled, since, want time.Duration
	}{
		{"signaled now", -1, -1, grace},
		{"to end long ago, and not signaled", -1, time.Hour, grace},
		{"signaled a while ago", 20 * time.Second, time.Hour, 10 * time.Second},
		{"signaled long ago", time.Hour, time.Hour, minGrace * time.Second},
		{"signaled long ago, and again now", time.Hour, 0, grace},
		{"signaled long ago, and again a while ago", time.Hour, 12 * time.Second, 18 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSim(t)
			pod := simPod(sample("a", "ignore-term"))
			s.mustSync(pod)
			has := s.status(pod)
			g := Grace{Seconds: 30}
			if tt.signaled >= 0 {
				s.RestoreSignaled(has.Containers[0].ID, s.clock.Now().Add(-tt.signaled))
			}
			if tt.since >= 0 {
				g.Since = s.clock.Now().Add(-tt.since)
			}
			done := make(chan error, 1)
			go func() { done <- s.KillPod(s.t.Context(), pod, has, g) }()
			s.wantTimers(1, tt.want)
			s.clock.Step(tt.want)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Signaled is called for a container that still runs after its SIGTERM, and not if the runtime couldn't be called.
func TestKillPodSignaled(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "ignore-term"))
	s.mustSync(pod)
	has := s.status(pod)
	begun, signaled := s.clock.Now(), make(chan time.Time, 2)
	grace := Grace{Seconds: 30, Signaled: func(id string, at time.Time) {
		if id != has.Containers[0].ID {
			t.Errorf("container %s was signaled", id)
		}
		signaled <- at
	}}
	s.setFault(failing("StopContainer", errDown))
	if err := s.KillPod(t.Context(), pod, has, grace); err == nil {
		t.Error("no error although the runtime is down")
	}
	s.clock.Step(10 * time.Second)
	s.setFault(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.KillPod(ctx, pod, has, grace) }()
	s.wantTimers(1, 30*time.Second)
	if at := <-signaled; !at.Equal(begun.Add(10 * time.Second)) {
		t.Errorf("it was signaled at %v; want when the runtime answered, %v", at, begun.Add(10*time.Second))
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a kill that was cut short is no success")
	}
	// It goes on from there.
	s.clock.Step(5 * time.Second)
	go func() { done <- s.KillPod(t.Context(), pod, has, grace) }()
	s.wantTimers(1, 25*time.Second)
	s.clock.Step(25 * time.Second)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
