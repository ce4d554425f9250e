package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func withPreStop(c v1.Container) v1.Container {
	c.Lifecycle = &v1.Lifecycle{PreStop: hookOf("bye")}
	c.Ports = []v1.ContainerPort{{Name: "http", ContainerPort: 80}}
	return c
}

// The hook comes from the container, so that it runs also if its pod isn't known any more. Its time counts.
func TestPreStop(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := simPod(withPreStop(sample("a")), sample("b"))
	has := s.settle(pod)
	s.hooks.run = func(context.Context, string) error { s.clock.Step(11500 * time.Millisecond); return nil }
	bare := &v1.Pod{ObjectMeta: pod.ObjectMeta}
	if err := s.KillPod(t.Context(), bare, has, Grace{Seconds: 30}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a: bye"}, s.hooks.took()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if got := s.hooks.last; got.PodIP != has.Sandboxes[0].IPs[0] || got.ContainerID != has.Latest("a").ID || len(got.Ports) != 1 || got.Pod != bare {
		t.Errorf("the hook was for %+v", got)
	}
	if got := took(has); !slices.Contains(got, "a 19") {
		t.Errorf("stops %v; want 19 s for a, what is left of 30", got)
	}
	if diff := cmp.Diff([]string{"Killing a: Stopping container a", "Killing b: Stopping container b"}, slices.Sorted(slices.Values(s.events()))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestPreStopIsSkippedWithoutGrace(t *testing.T) {
	s := newSim(t)
	pod := simPod(withPreStop(sample("a")))
	if err := s.KillPod(t.Context(), pod, s.settle(pod), Grace{Seconds: 0}); err != nil {
		t.Fatal(err)
	}
	if got := s.hooks.took(); len(got) > 0 {
		t.Errorf("hooks %v; want none", got)
	}
}

// A hook that doesn't end gets the grace period, and the container the minimum after it.
func TestPreStopThatHangs(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := simPod(withPreStop(sample("a")))
	has := s.settle(pod)
	s.hooks.run = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	done := s.kill(pod, has, 30)
	s.wantTimers(1, 30*time.Second)
	s.clock.Step(30 * time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 2"}, took(has)); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
	if got := s.events(); !slices.Contains(got, "FailedPreStopHook a: PreStopHook failed") {
		t.Errorf("events %q; want FailedPreStopHook", got)
	}
}

// The hook of a container doesn't run again, though the container is stopped again; a hook that was interrupted does.
func TestPreStopOnce(t *testing.T) {
	s := newSim(t)
	pod := simPod(withPreStop(sample("a")))
	has := s.settle(pod)
	ctx, cancel := context.WithCancel(t.Context())
	s.hooks.run = func(ctx context.Context, _ string) error { cancel(); <-ctx.Done(); return ctx.Err() }
	if err := s.KillPod(ctx, pod, has, Grace{Seconds: 30}); err == nil {
		t.Error("a kill that was cut short is no success")
	}
	s.hooks.run = nil
	s.setFault(failing("StopContainer", errDown))
	for range 2 {
		if err := s.KillPod(t.Context(), pod, has, Grace{Seconds: 30}); err == nil {
			t.Error("no error although the runtime is down")
		}
	}
	if diff := cmp.Diff([]string{"a: bye", "a: bye"}, s.hooks.took()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

// The hooks of sidecars start with those of the main containers, though the sidecars stop after them.
func TestPreStopOfSidecars(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := simPod(withPreStop(sample("a")))
	pod.Spec.InitContainers = []v1.Container{withPreStop(sidecar("i"))}
	has := s.settle(pod)
	var both sync.WaitGroup
	both.Add(2)
	s.hooks.run = func(context.Context, string) error { both.Done(); both.Wait(); return nil }
	if err := s.KillPod(t.Context(), pod, has, Grace{Seconds: 30}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 30", "i 30"}, took(has)); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
}

// Each sidecar waits for its own hook only.
func TestPreStopOfSidecarsDelaysNoOther(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := simPod(sample("a"))
	pod.Spec.InitContainers = []v1.Container{withPreStop(sidecar("i")), sidecar("k")}
	has := s.settle(pod)
	stops, second := 0, make(chan struct{})
	s.setFault(func(method string) error {
		if method == "StopContainer" {
			if stops++; stops == 2 {
				close(second)
			}
		}
		return nil
	})
	s.hooks.run = func(context.Context, string) error {
		select {
		case <-second:
		case <-time.After(20 * time.Second):
			t.Error("k runs until the hook of i is done")
		}
		return nil
	}
	if err := s.KillPod(t.Context(), pod, has, Grace{Seconds: 30}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 30", "k 30", "i 30"}, took(has)); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
}

func withPostStart(c v1.Container) v1.Container {
	c.Lifecycle = &v1.Lifecycle{PostStart: hookOf("hello")}
	return c
}

// The next container starts when the hook of the one before is done.
func TestPostStart(t *testing.T) {
	s := newSim(t)
	pod := simPod(withPostStart(sample("a")), sample("b"))
	s.hooks.run = func(context.Context, string) error {
		has := s.status(pod)
		if a, b := has.Latest("a"), has.Latest("b"); a == nil || a.State != observed.Running || b != nil {
			t.Errorf("during the hook a is %+v and b %+v", a, b)
		}
		return nil
	}
	s.mustSync(pod)
	s.wantContainer(pod, "b", observed.Running, 0)
	if diff := cmp.Diff([]string{"a: hello"}, s.hooks.took()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

func TestPostStartFails(t *testing.T) {
	s := newSim(t)
	pod := simPod(withPostStart(sample("a")), sample("b"))
	s.hooks.run = func(context.Context, string) error { return errors.New("no answer") }
	if message := s.wantWaiting(pod, "a", PostStartHookError, failurePause, true); message != "no answer" {
		t.Errorf("message %q", message)
	}
	s.wantContainer(pod, "a", observed.Exited, 0)
	s.wantContainer(pod, "b", observed.Running, 0)
	want := []string{"FailedPostStartHook a: PostStartHook failed", "Killing a: Container a failed postStart hook"}
	if diff := cmp.Diff(want, s.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// It restarts by the rules of any other.
	s.wantWaiting(pod, "a", PostStartHookError, failurePause, true)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
}

// However long the hook took, the container has its whole grace period to end, and so does its preStop hook.
func TestPostStartFailsLate(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	a := withPostStart(sample("a"))
	a.Lifecycle.PreStop = hookOf("bye")
	pod := simPod(a)
	s.hooks.run = func(ctx context.Context, _ string) error {
		if len(s.hooks.ran) > 1 {
			return ctx.Err()
		}
		s.clock.Step(time.Minute)
		return errors.New("no answer")
	}
	s.wantWaiting(pod, "a", PostStartHookError, failurePause, true)
	if diff := cmp.Diff([]string{"a 30"}, took(s.status(pod))); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a: hello", "a: bye"}, s.hooks.took()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

// An HTTP hook goes to the pod's IP, although the IP of the new sandbox wasn't read before.
func TestPostStartRequest(t *testing.T) {
	s := newSim(t)
	a := sample("a")
	a.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{}}}
	pod := simPod(a)
	s.mustSync(pod)
	if want := s.status(pod).Sandboxes[0].IPs[0]; s.hooks.last.PodIP != want {
		t.Errorf("the hook was for %q; want %q", s.hooks.last.PodIP, want)
	}
	pod.UID, pod.Name, pod.Spec.HostNetwork = "uid-2", "node", true
	s.mustSync(pod)
	if s.hooks.last.PodIP != "127.0.0.1" {
		t.Errorf("in the node's network the hook was for %q", s.hooks.last.PodIP)
	}
}

// A hook that is interrupted because the pod or this agent stops is no failure of the container.
func TestPostStartCutShort(t *testing.T) {
	s := newSim(t)
	pod := simPod(withPostStart(sample("a")), sample("b"))
	ctx, cancel := context.WithCancel(t.Context())
	s.hooks.run = func(ctx context.Context, _ string) error { cancel(); <-ctx.Done(); return ctx.Err() }
	res := s.SyncPod(ctx, s.input(pod))
	if !errors.Is(res.Err, context.Canceled) || len(res.Waiting) > 0 {
		t.Errorf("result %+v; want it cancelled", res)
	}
	s.wantContainer(pod, "a", observed.Running, 0)
	if b := s.status(pod).Latest("b"); b != nil {
		t.Errorf("b is %+v; want none", b)
	}
}

func TestWithoutHookRunner(t *testing.T) {
	s := newSim(t)
	s.with(func(c *Config) { c.Hooks = nil })
	s.wantWaiting(simPod(withPostStart(sample("a"))), "a", PostStartHookError, failurePause, true)
}
