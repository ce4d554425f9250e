package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// stops records which containers are stopped, by ID, with which time-out in seconds.
type stops struct {
	internalapi.RuntimeService

	mu    sync.Mutex
	calls []stop
}

type stop struct {
	id      string
	timeout int64
}

func (s *stops) StopContainer(ctx context.Context, id string, timeout int64) error {
	s.mu.Lock()
	s.calls = append(s.calls, stop{id, timeout})
	s.mu.Unlock()
	return s.RuntimeService.StopContainer(ctx, id, timeout)
}

// watchStops records the Runtime's stops from now on. took returns those since its last call, as "name seconds".
func (s *sim) watchStops() (took func(has *observed.Pod) []string) {
	watched := &stops{RuntimeService: s.CRI}
	s.with(func(c *Config) { c.Runtime = watched })
	return func(has *observed.Pod) []string {
		watched.mu.Lock()
		defer watched.mu.Unlock()
		var out []string
		for _, call := range watched.calls {
			i := slices.IndexFunc(has.Containers, func(c observed.Container) bool { return c.ID == call.id })
			out = append(out, fmt.Sprintf("%s %d", has.Containers[i].Name, call.timeout))
		}
		watched.calls = nil
		return out
	}
}

func sidecar(name string, args ...string) v1.Container {
	c := sample(name, args...)
	c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	return c
}

// settle syncs until there are no more actions.
func (s *sim) settle(pod *v1.Pod) *observed.Pod {
	s.t.Helper()
	for range 10 {
		has := s.status(pod)
		if settled := s.callsDuring(func() { s.sync(pod) }); len(settled) == 0 {
			return has
		}
	}
	s.t.Fatal("the pod doesn't come to rest")
	return nil
}

func TestKillPodEndsSidecarsLastInReverse(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := simPod(sample("a"), sample("b"))
	pod.Spec.InitContainers = []v1.Container{sidecar("i"), sample("j", "exit", "0"), sidecar("k"), sidecar("l")}
	has := s.settle(pod)
	if err := s.KillPod(t.Context(), pod, has, Grace{Seconds: 30}); err != nil {
		t.Fatal(err)
	}
	got := took(has)
	slices.Sort(got[:min(2, len(got))])
	if diff := cmp.Diff([]string{"a 30", "b 30", "l 30", "k 30", "i 30"}, got); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
}

// Slow main containers leave the sidecars the rest of the grace period; when none is left, all sidecars get the minimum
// at once.
func TestKillPodSharesTheGracePeriod(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := simPod(sample("a", "ignore-term"))
	pod.Spec.InitContainers = []v1.Container{sidecar("i", "ignore-term"), sidecar("k", "ignore-term")}
	has := s.settle(pod)
	done := s.kill(pod, has, 30)
	s.wantTimers(1, 30*time.Second)
	s.clock.Step(10 * time.Second)
	s.exit(pod, "a", 0)
	s.wantTimers(1, 20*time.Second)
	s.clock.Step(20 * time.Second)
	s.wantTimers(1, 2*time.Second)
	s.clock.Step(2 * time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 30", "k 20", "i 2"}, took(has)); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}

	s = newSim(t)
	has = s.settle(pod)
	done = s.kill(pod, has, 30)
	s.wantTimers(1, 30*time.Second)
	s.clock.Step(30 * time.Second)
	s.wantTimers(2, 2*time.Second)
	s.clock.Step(2 * time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A debug container that doesn't end doesn't delay the SIGTERM of a sidecar. The sandbox waits for it.
func TestKillPodEndsEphemeralContainersBeside(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	pod.Spec.InitContainers = []v1.Container{sidecar("i")}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(sample("debug", "ignore-term"))}}
	has := s.settle(pod)
	ended := make(chan struct{})
	s.with(func(c *Config) { c.Runtime = &sidecarEnd{RuntimeService: s.CRI, id: has.Latest("i").ID, ended: ended} })
	done := s.kill(pod, has, 30)
	s.wantTimers(3, 30*time.Second)
	<-ended
	if box := s.status(pod).ReadySandbox(); box == nil {
		t.Error("the sandbox was stopped before the debug container had ended")
	}
	s.clock.Step(30 * time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if has := s.status(pod); has.Active() {
		t.Errorf("something still runs: %+v", has)
	}
}

// sidecarEnd reports when a container has been stopped.
type sidecarEnd struct {
	internalapi.RuntimeService
	id    string
	ended chan struct{}
}

func (r *sidecarEnd) StopContainer(ctx context.Context, id string, timeout int64) error {
	err := r.RuntimeService.StopContainer(ctx, id, timeout)
	if id == r.id {
		close(r.ended)
	}
	return err
}

// stuck can't stop some containers, by id.
type stuck struct {
	internalapi.RuntimeService
	ids map[string]bool
}

func (r *stuck) StopContainer(ctx context.Context, id string, timeout int64) error {
	if r.ids[id] {
		return errors.New("the process is in an uninterruptible sleep")
	}
	return r.RuntimeService.StopContainer(ctx, id, timeout)
}

// A container that can't be stopped delays those after it until its grace period is over, and no longer. Hooks run
// once.
func TestKillPodGoesOnWithoutTheStuck(t *testing.T) {
	for _, name := range []string{"a", "k"} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			pod := simPod(sample("a"))
			pod.Spec.InitContainers = []v1.Container{withPreStop(sidecar("i")), sidecar("k")}
			has := s.settle(pod)
			s.with(func(c *Config) { c.Runtime = &stuck{s.CRI, map[string]bool{has.Latest(name).ID: true}} })
			for _, after := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
				s.clock.Step(after)
				if err := s.KillPod(t.Context(), pod, s.status(pod), Grace{Seconds: 30}); err == nil {
					t.Error("no error though a container runs on")
				}
				now, want := s.status(pod), observed.Running
				if after == 20*time.Second {
					want = observed.Exited
				}
				if state := now.Latest("i").State; state != want {
					t.Errorf("%v later the sidecar is %v; want %v", after, state, want)
				}
				if now.ReadySandbox() == nil || now.Latest(name).State != observed.Running {
					t.Errorf("the sandbox of a container that runs on was stopped")
				}
			}
			if diff := cmp.Diff([]string{"i: bye"}, s.hooks.took()); diff != "" {
				t.Errorf("hooks (-want +got):\n%s", diff)
			}
		})
	}
}

// A container that earlier couldn't be stopped for another reason has its whole grace period when the pod is
// terminated.
func TestKillPodCountsItsOwnTries(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	pod.Spec.InitContainers = []v1.Container{sidecar("i")}
	has := s.settle(pod)
	s.setFault(failing("StopContainer", errDown))
	changed := pod.DeepCopy()
	changed.Spec.Containers[0].Image = "sim/app:1"
	if res := s.sync(changed); res.Err == nil {
		t.Fatal("the container was stopped")
	}
	s.clock.Step(time.Hour)
	st := &stuck{s.CRI, map[string]bool{has.Latest("a").ID: true}}
	s.setFault(nil)
	s.cfg.Runtime = st
	if err := s.KillPod(t.Context(), pod, s.status(pod), Grace{Seconds: 30}); err == nil {
		t.Error("no error though a container runs on")
	}
	if i := s.status(pod).Latest("i"); i.State != observed.Running {
		t.Errorf("the sidecar is %v with the first failure; want it to run for the grace period", i.State)
	}
}

// While the hook of a sidecar runs, stopping a main container is retried: the hook is neither waited for nor
// interrupted.
func TestKillPodTriesAgainDuringHooks(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	pod.Spec.InitContainers = []v1.Container{withPreStop(sidecar("i"))}
	has := s.settle(pod)
	release := make(chan struct{})
	s.hooks.run = func(context.Context, string) error { <-release; return nil }
	s.setFault(failing("StopContainer", errDown))
	done := s.kill(pod, has, 60)
	s.wantPausing(stopPause)
	again := make(chan struct{})
	report := sync.OnceFunc(func() { close(again) })
	s.setFault(func(method string) error {
		if method == "StopContainer" {
			report()
		}
		return nil
	})
	s.clock.Step(stopPause)
	<-again
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"i: bye"}, s.hooks.took()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

// wantPausing waits for a timer of that length; others are left out.
func (s *sim) wantPausing(pause time.Duration) {
	s.t.Helper()
	for got := range s.clock.Set {
		if got == pause {
			return
		}
	}
}
