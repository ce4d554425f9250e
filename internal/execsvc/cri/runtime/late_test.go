package runtime

import (
	"context"
	"errors"
	"sync"
	"testing"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// laggard is a runtime that has stopped a container before it reports the end, as a busy containerd may do.
type laggard struct {
	internalapi.RuntimeService

	mu sync.Mutex
	// lag is for how many statuses a stopped container is still reported as running. left are those to come, by ID.
	lag  int
	left map[string]int
	// asked, if set, is called for each of these statuses.
	asked func()
}

// lagging makes the runtime report the end of a container only after that many statuses.
func (s *sim) lagging(statuses int) *laggard {
	l := &laggard{RuntimeService: s.CRI, lag: statuses, left: map[string]int{}}
	s.with(func(c *Config) { c.Runtime = l })
	return l
}

func (l *laggard) StopContainer(ctx context.Context, id string, timeout int64) error {
	err := l.RuntimeService.StopContainer(ctx, id, timeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[id] = l.lag
	return err
}

func (l *laggard) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	list, err := l.RuntimeService.ListContainers(ctx, filter)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range list {
		if l.left[c.GetId()] > 0 {
			c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
		}
	}
	return list, err
}

func (l *laggard) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := l.RuntimeService.ContainerStatus(ctx, id, verbose)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left[id] > 0 {
		l.left[id]--
		resp.Status.State, resp.Status.FinishedAt, resp.Status.ExitCode = runtimeapi.ContainerState_CONTAINER_RUNNING, 0, 0
		if l.asked != nil {
			l.asked()
		}
	}
	return resp, err
}

// A container whose hook has failed is never seen running again, although the runtime records its end late.
func TestPostStartFailsAndTheEndIsLate(t *testing.T) {
	s := newSim(t)
	s.lagging(3)
	pod := simPod(withPostStart(sample("a")))
	s.hooks.run = func(context.Context, string) error { return errors.New("no answer") }
	s.wantWaiting(pod, "a", PostStartHookError, failurePause, true)
	if c := s.wantContainer(pod, "a", observed.Exited, 0); c.Finished.IsZero() || c.ExitCode == 0 {
		t.Errorf("a is %+v; want how it ended", c)
	}
}

// The same goes for a container of which there is a cached status.
func TestStoppedAndTheEndIsLate(t *testing.T) {
	s := newSim(t)
	s.lagging(3)
	pod := simPod(sample("a"), sample("b"))
	if err := s.KillPod(t.Context(), pod, s.settle(pod), Grace{Seconds: 30}); err != nil {
		t.Fatal(err)
	}
	if has := s.status(pod); has.Active() {
		t.Errorf("the pod is %+v; want nothing running", has)
	}
	s.Server.DropAll()
	s.wantListed()
	if left := s.remembered(); len(left) != 0 {
		t.Errorf("what is gone is remembered: %v", left)
	}
}

// A container that goes on running after all is reported so, without further waits. A wait ends with its context.
func TestStoppedAndGoesOn(t *testing.T) {
	s := newSim(t)
	slow := s.lagging(1000)
	pod := simPod(sample("a"))
	has := s.settle(pod)
	if err := s.KillPod(t.Context(), pod, has, Grace{Seconds: 30}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow.asked = cancel
	if has, err := s.Status(ctx, pod.UID); !errors.Is(err, context.Canceled) {
		t.Errorf("pod %+v, error %v; want the wait canceled", has, err)
	}
	asked := 0
	slow.asked = func() {
		if asked++; asked == 2 {
			s.clock.Step(stopLag)
		}
	}
	s.wantContainer(pod, "a", observed.Running, 0)
	s.wantContainer(pod, "a", observed.Running, 0)
	if asked != 2 {
		t.Errorf("%d statuses were requested; want 2, of which the last one counts and is cached", asked)
	}
}
