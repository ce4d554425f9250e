package runtime

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

var errDown = status.Error(codes.Unavailable, "the runtime went away")

// once fails the nth call of a method, from zero, and no other. hit reports whether there was one.
type once struct {
	method string

	mu  sync.Mutex
	n   int
	hit bool
}

func (o *once) fault(method string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if method != o.method {
		return nil
	}
	o.n--
	if o.n != -1 {
		return nil
	}
	o.hit = true
	return errDown
}

// Each RPC of a pod fails once, at every place where it is made; the next rounds recover.
func TestFaultsConverge(t *testing.T) {
	for _, method := range []string{
		"ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus", "ImageStatus", "PullImage",
		"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox",
	} {
		t.Run(method, func(t *testing.T) {
			tryEach(t, func(t *testing.T, n int) bool {
				s := newSim(t)
				o := &once{method: method, n: n}
				s.setFault(o.fault)
				s.live()
				return o.hit
			})
		})
	}
}

// The same, but the runtime executes the call, and only its answer is lost: as when either process is killed.
func TestLostAnswersConverge(t *testing.T) {
	for _, method := range []string{
		"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox",
	} {
		t.Run(method, func(t *testing.T) {
			tryEach(t, func(t *testing.T, n int) bool {
				s := newSim(t)
				o := &once{method: method, n: n}
				s.CRI = &lossy{RuntimeService: s.CRI, lose: o.fault}
				s.Runtime = s.restarted()
				s.live()
				return o.hit
			})
		})
	}
}

// tryEach tries the nth call, for every n until there is no such call any more.
func tryEach(t *testing.T, try func(t *testing.T, n int) bool) {
	t.Helper()
	for n := 0; ; n++ {
		more := false
		t.Run(fmt.Sprint(n), func(t *testing.T) { more = try(t, n) })
		if !more {
			if n == 0 {
				t.Error("there is no such call")
			}
			return
		}
	}
}

// live takes a pod through all its possible states: a sidecar, an init container, crashes, a new image, a sandbox that
// dies, and the end. After each step it must converge, and at the end nothing may be left.
func (s *sim) live() {
	s.t.Helper()
	a := sample("a")
	a.Image = "sim/app:1"
	pod := simPod(a, sample("b"))
	pod.Spec.InitContainers = []v1.Container{sidecar("s"), sample("i", "exit", "0")}
	s.converge(pod)
	s.exit(pod, "s", 0)
	s.converge(pod)
	for range 3 {
		s.exit(pod, "a", 1)
		s.converge(pod)
	}
	pod.Spec.Containers[1].Image = "sim/other:2"
	s.converge(pod)
	for _, box := range s.statusAgain(pod).Sandboxes {
		if err := s.Server.KillSandbox(box.ID); err != nil {
			s.t.Fatal(err)
		}
	}
	s.converge(pod)
	s.exit(pod, "b", 0)
	s.converge(pod)

	s.retry("kill", func() error {
		has, err := s.Status(s.t.Context(), pod.UID)
		if err != nil {
			return err
		}
		return s.KillPod(s.t.Context(), pod, has, Grace{Seconds: 30})
	})
	s.retry("purge", func() error {
		has, err := s.Status(s.t.Context(), pod.UID)
		if err != nil {
			return err
		}
		return s.Purge(s.t.Context(), pod, has)
	})
	s.setFault(nil)
	if sandboxes, containers := s.Left(); sandboxes+containers > 0 {
		s.t.Fatalf("%d sandboxes and %d containers are left", sandboxes, containers)
	}
	s.wantNoLogs()
}

// converge syncs until there are no more actions, and checks the result.
func (s *sim) converge(pod *v1.Pod) {
	s.t.Helper()
	for range 12 {
		// Longer than any backoff.
		s.clock.Step(6 * time.Minute)
		has, err := s.Status(s.t.Context(), pod.UID)
		if err != nil {
			continue
		}
		if text := settled(pod, has); text == "" {
			s.wantLinks(has)
			return
		}
		s.SyncPod(s.t.Context(), SyncInput{Pod: pod, Has: has, Setup: plainSetup{}})
	}
	has := s.statusAgain(pod)
	s.t.Fatalf("the pod doesn't come to rest: %s\n%+v", settled(pod, has), has)
}

// wantLinks checks that every container has a link for log collectors.
func (s *sim) wantLinks(has *observed.Pod) {
	s.t.Helper()
	dead := map[string]int{}
	for _, c := range has.Containers {
		if c.State == observed.Exited {
			if dead[c.Name]++; dead[c.Name] > 1 && has.Latest(c.Name).ID != c.ID {
				// It is being removed: its link goes before it.
				continue
			}
		}
		if _, err := os.Stat(s.logLink(has.Namespace, has.Name, c.Name, c.ID)); err != nil {
			s.t.Fatalf("the log of %s, attempt %d, isn't linked: %v", c.Name, c.Attempt, err)
		}
	}
}

// settled returns "" if the pod is complete, without duplicates.
func settled(pod *v1.Pod, has *observed.Pod) string {
	do := actions.Compute(actions.Input{Pod: pod, Has: has})
	if do.KillPod || do.CreateSandbox || len(do.Kill)+len(do.Remove)+len(do.Start) > 0 {
		return fmt.Sprintf("there is more to do: %+v", do)
	}
	ready, running := 0, map[string]int{}
	for _, s := range has.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	for _, c := range has.Containers {
		if c.State != observed.Exited {
			running[c.Name]++
		}
	}
	if ready != 1 || len(running) != 3 || running["a"] != 1 || running["b"] != 1 || running["s"] != 1 {
		return fmt.Sprintf("%d sandboxes are ready, and of each container there run %v", ready, running)
	}
	return ""
}

// statusAgain returns the pod's status, at the second attempt if the first fails.
func (s *sim) statusAgain(pod *v1.Pod) *observed.Pod {
	s.t.Helper()
	if has, err := s.Status(s.t.Context(), pod.UID); err == nil {
		return has
	}
	return s.status(pod)
}

// retry does it again if it fails, once.
func (s *sim) retry(what string, do func() error) {
	s.t.Helper()
	if do() == nil {
		return
	}
	if err := do(); err != nil {
		s.t.Fatalf("%s, for the second time: %v", what, err)
	}
}

// lossy executes calls, and may lose the answer.
type lossy struct {
	internalapi.RuntimeService
	lose func(method string) error
}

func (f *lossy) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	id, err := f.RuntimeService.RunPodSandbox(ctx, config, handler)
	if lost := f.lose("RunPodSandbox"); lost != nil {
		return "", lost
	}
	return id, err
}

func (f *lossy) CreateContainer(
	ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig,
) (string, error) {
	id, err := f.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
	if lost := f.lose("CreateContainer"); lost != nil {
		return "", lost
	}
	return id, err
}

// answer returns err, unless the answer is lost.
func (f *lossy) answer(method string, err error) error {
	if lost := f.lose(method); lost != nil {
		return lost
	}
	return err
}

func (f *lossy) StartContainer(ctx context.Context, id string) error {
	return f.answer("StartContainer", f.RuntimeService.StartContainer(ctx, id))
}

func (f *lossy) StopContainer(ctx context.Context, id string, timeout int64) error {
	return f.answer("StopContainer", f.RuntimeService.StopContainer(ctx, id, timeout))
}

func (f *lossy) StopPodSandbox(ctx context.Context, id string) error {
	return f.answer("StopPodSandbox", f.RuntimeService.StopPodSandbox(ctx, id))
}

func (f *lossy) RemoveContainer(ctx context.Context, id string) error {
	return f.answer("RemoveContainer", f.RuntimeService.RemoveContainer(ctx, id))
}

func (f *lossy) RemovePodSandbox(ctx context.Context, id string) error {
	return f.answer("RemovePodSandbox", f.RuntimeService.RemovePodSandbox(ctx, id))
}
