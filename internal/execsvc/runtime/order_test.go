package runtime

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// stops notes which containers are stopped, by id, with how many seconds.
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

// watchStops has the Runtime's stops noted from now on. took are those since the last time, as "name seconds".
func (s *sim) watchStops() (took func(has *observed.Pod) []string) {
	watched := &stops{RuntimeService: s.cri}
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

// settle syncs until nothing more is to be done.
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

// Main containers that take their time leave the sidecars what is left; when nothing is, all sidecars get the least at once.
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
