package runtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// interrupted calls before in each RunPodSandbox, and records whether the request was canceled then.
type interrupted struct {
	internalapi.RuntimeService
	before   func()
	canceled error
}

func (i *interrupted) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	i.before()
	i.canceled = ctx.Err()
	return i.RuntimeService.RunPodSandbox(ctx, config, handler)
}

// The creation of a sandbox is finished although its pod is removed meanwhile. No container is created in it.
func TestRemovedDuringSandboxCreation(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	ctx, remove := context.WithCancel(t.Context())
	defer remove()
	cri := &interrupted{before: remove}
	s.with(func(c *Config) {
		cri.RuntimeService = c.Runtime
		c.Runtime = cri
	})
	if res := s.SyncPod(ctx, s.input(pod)); !errors.Is(res.Err, context.Canceled) {
		t.Errorf("error %v, want that of the context", res.Err)
	}
	if has := s.status(pod); cri.canceled != nil || has.ReadySandbox() == nil || len(has.Containers) > 0 {
		t.Errorf("RunPodSandbox was canceled: %v; sandboxes %+v, containers %+v", cri.canceled, has.Sandboxes, has.Containers)
	}
}

func TestFinishWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		patient, cancel := finishWithin(ctx, 5*time.Second)
		defer cancel()
		time.Sleep(6*time.Second - time.Nanosecond)
		synctest.Wait()
		if patient.Err() != nil {
			t.Errorf("before the limit: %v", patient.Err())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if patient.Err() == nil {
			t.Error("it goes on after the limit")
		}
		finished, cancel := finishWithin(t.Context(), time.Second)
		cancel()
		if finished.Err() == nil {
			t.Error("it goes on after its own cancel")
		}
	})
}

// containerd refuses to remove a container whose interrupted start it still works on, for up to a minute. The start may
// succeed, so no other container is created until the removal succeeds. The next container has the same attempt.
func TestStartStillUnderWay(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	failing := "StartContainer"
	s.setFault(func(method string) error {
		if method == failing {
			return errors.New("container is in starting state")
		}
		return nil
	})
	s.sync(pod)
	first := s.wantContainer(pod, "a", observed.Created, 0)
	failing = "RemoveContainer"
	for range 2 {
		if res := s.sync(pod); res.Err == nil {
			t.Error("a container that can't be removed is no error")
		}
		if has := s.status(pod); len(has.Containers) != 1 || has.Containers[0].ID != first.ID {
			t.Fatalf("containers %+v; want only %s", has.Containers, first.ID)
		}
	}
	failing = ""
	s.mustSync(pod)
	if a := s.wantContainer(pod, "a", observed.Running, 0); a.ID == first.ID || len(s.status(pod).Containers) != 1 {
		t.Errorf("containers %+v", s.status(pod).Containers)
	}
}
