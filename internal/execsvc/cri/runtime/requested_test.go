package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// request returns the request to restart the pod's containers of these names, or all of them.
func (s *sim) request(pod *v1.Pod, names ...string) actions.Requested {
	s.t.Helper()
	if len(names) == 0 {
		names = []string{""}
	}
	r := actions.Requested{}
	for _, name := range names {
		asked, err := actions.Request(pod, s.status(pod), nil, name)
		if err != nil {
			s.t.Fatal(err)
		}
		for name, id := range asked {
			r[name] = id
		}
	}
	return r
}

// syncRequested does one round with the request.
func (s *sim) syncRequested(pod *v1.Pod, r actions.Requested) SyncResult {
	s.t.Helper()
	in := s.input(pod)
	in.Requested = r
	return s.SyncPod(s.t.Context(), in)
}

// A requested restart runs the hooks and ends the containers in the order of a pod's end, with the pod's grace period.
// The events name the operator. A second round with the same request stops nothing.
func TestRequestedRestart(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := simPod(withPreStop(sample("a", endsWell...)), sample("b"))
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.InitContainers = []v1.Container{sample("setup", "exit", "0"), sidecar("side")}
	has := s.settle(pod)
	s.exit(pod, "b", 3)
	asked := s.request(pod)
	if res := s.syncRequested(pod, asked); res.Err != nil || len(res.Waiting) > 0 || !res.Acted {
		t.Fatalf("SyncPod: %+v", res)
	}
	if diff := cmp.Diff([]string{"a 30", "side 30"}, took(has)); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a: bye"}, s.hooks.took()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	const message = "Killing a: Container a restart requested by an operator, will be restarted"
	if got := s.events(); !slices.Contains(got, message) {
		t.Errorf("events %q; want %q", got, message)
	}
	for _, name := range []string{"a", "b", "side"} {
		s.wantContainer(pod, name, observed.Running, 1)
	}
	s.wantContainer(pod, "setup", observed.Exited, 0)
	if boxes, _ := s.Left(); boxes != 1 {
		t.Errorf("there are %d sandboxes; want the same one", boxes)
	}
	if calls := s.callsDuring(func() { s.syncRequested(pod, asked) }); len(calls) > 0 {
		t.Errorf("a round after the restart makes the calls %q", calls)
	}
}

// A requested restart ends CrashLoopBackOff, also of a container that runs again only now, and resets the backoff.
func TestRequestedRestartHasNoBackoff(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.crashTwice(pod)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
	for attempt := uint32(2); attempt < 6; attempt++ {
		if res := s.syncRequested(pod, s.request(pod)); res.Err != nil || len(res.Waiting) > 0 {
			t.Fatalf("SyncPod: %+v; want the container started", res)
		}
		s.wantContainer(pod, "a", observed.Running, attempt)
	}
	s.exit(pod, "a", 1)
	s.mustSync(pod)
	s.exit(pod, "a", 1)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
}

// If podexecd is killed between the stop and the start, the request alone starts the container, once.
func TestRequestedRestartAfterKill(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		s := newSim(t)
		pod := simPod(sample("a", endsWell...), sample("b"))
		pod.Spec.RestartPolicy = policy
		s.mustSync(pod)
		asked := s.request(pod, "a")
		s.setFault(failing("CreateContainer", errors.New("podexecd was killed")))
		if res := s.syncRequested(pod, asked); res.Err == nil {
			t.Fatalf("result %+v; want the successor to fail", res)
		}
		s.setFault(nil)
		s.Runtime = s.restarted()
		s.wantContainer(pod, "a", observed.Exited, 0)
		for range 2 {
			if res := s.syncRequested(pod, asked); res.Err != nil {
				t.Fatal(res.Err)
			}
			s.wantContainer(pod, "a", observed.Running, 1)
			s.wantContainer(pod, "b", observed.Running, 0)
		}
	}
}

// A requested restart that is interrupted after the SIGTERM continues the grace period, and doesn't run the hook again.
func TestRequestedRestartGoesOn(t *testing.T) {
	s := newSim(t)
	pod := simPod(withPreStop(sample("a", "ignore-term")))
	s.mustSync(pod)
	in := s.input(pod)
	in.Requested = s.request(pod)
	type signal struct {
		id string
		at time.Time
	}
	signaled := make(chan signal, 1)
	in.Signaled = func(id string, at time.Time) { signaled <- signal{id, at} }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan SyncResult, 1)
	go func() { done <- s.SyncPod(ctx, in) }()
	s.wantTimers(2, 30*time.Second) // of the hook, and of the container
	noted := <-signaled
	cancel()
	if res := <-done; res.Err == nil {
		t.Fatalf("result %+v; want an interrupted stop", res)
	}
	s.hooks.took()
	s.Runtime = s.restarted()
	s.RestoreSignaled(noted.id, noted.at)
	s.clock.Step(10 * time.Second)
	again := s.input(pod)
	again.Requested = in.Requested
	go func() { done <- s.SyncPod(t.Context(), again) }()
	s.wantTimers(1, 20*time.Second)
	s.clock.Step(20 * time.Second)
	if res := <-done; res.Err != nil {
		t.Fatal(res.Err)
	}
	if ran := s.hooks.took(); len(ran) > 0 {
		t.Errorf("the hooks %q ran again", ran)
	}
	s.wantContainer(pod, "a", observed.Running, 1)
}

// A container whose image isn't there goes on. The containers that would wait for a sidecar go on with it, and start
// beside it if they don't run.
func TestRequestedRestartWaitsForImages(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"), sample("c"))
	pod.Spec.InitContainers = []v1.Container{sidecar("side")}
	pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
	if res := s.sync(pod); res.Err != nil {
		t.Fatal(res.Err)
	}
	sync := func(asked actions.Requested) SyncResult {
		t.Helper()
		in := s.input(pod)
		in.Requested = asked
		in.Probes = observed.Probes{in.Has.Latest("side").ID: {Startup: observed.Success}}
		return s.SyncPod(t.Context(), in)
	}
	sync(nil)
	s.exit(pod, "b", 1)
	asked := s.request(pod, "a", "b", "side")
	s.images.answer("side", &image.Wait{Reason: image.ErrImagePull, Message: "no registry"}, errors.New("no registry"))
	res := sync(asked)
	if res.Err == nil || !strings.Contains(res.Err.Error(), "replace container side: ErrImagePull: no registry; its predecessor goes on") {
		t.Errorf("error %v", res.Err)
	}
	for name, attempt := range map[string]uint32{"side": 0, "a": 0, "b": 1, "c": 0} {
		s.wantContainer(pod, name, observed.Running, attempt)
	}

	// Once it is there, the others stop too, and wait for the new sidecar's startup probe.
	s.images.answer("side", nil, nil)
	in := s.input(pod)
	in.Requested = asked
	in.Probes = observed.Probes{in.Has.Latest("side").ID: {Startup: observed.Success}}
	res = s.SyncPod(t.Context(), in)
	if res.Err != nil || res.Waiting["a"].Reason != ContainerCreating {
		t.Errorf("result %+v; want a waiting", res)
	}
	s.wantContainer(pod, "side", observed.Running, 1)
	s.wantContainer(pod, "a", observed.Exited, 0)
	if res := sync(asked); res.Err != nil || len(res.Waiting) > 0 {
		t.Errorf("result %+v; want all running", res)
	}
	for name, attempt := range map[string]uint32{"side": 1, "a": 1, "b": 1, "c": 0} {
		s.wantContainer(pod, name, observed.Running, attempt)
	}
}
