package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

func TestSyncPodStarts(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "print", "hello"))
	s.mustSync(pod)
	a := s.wantContainer(pod, "a", observed.Running, 0)

	sandboxes, err := s.CRI.ListPodSandbox(t.Context(), nil)
	if err != nil || len(sandboxes) != 1 {
		t.Fatalf("sandboxes %v, error %v; want one", sandboxes, err)
	}
	wantLabels := map[string]string{
		"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-1",
	}
	if diff := cmp.Diff(wantLabels, sandboxes[0].GetLabels()); diff != "" {
		t.Errorf("labels of the sandbox (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{"kubernetes.io/config.source": "file", podmeta.AgentAnnotation: "me"}
	if diff := cmp.Diff(wantAnnotations, sandboxes[0].GetAnnotations()); diff != "" {
		t.Errorf("annotations of the sandbox (-want +got):\n%s", diff)
	}

	container, err := s.CRI.ContainerStatus(t.Context(), a.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		podmeta.AgentAnnotation: "me", criconfig.ContainerHashAnnotation: criconfig.ContainerHash(&pod.Spec.Containers[0]), criconfig.RestartCountAnnotation: "0",
		criconfig.PodTerminationGracePeriodAnnotation: "30",
	} {
		if got := container.GetStatus().GetAnnotations()[key]; got != want {
			t.Errorf("annotation %s of the container is %q; want %q", key, got, want)
		}
	}

	link := "containers/web_default_a-" + a.ID + ".log"
	if diff := cmp.Diff([]string{link, "pods/default_web_uid-1/a/0.log"}, s.files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	log, err := os.ReadFile(filepath.Join(s.root, link))
	if err != nil || !strings.HasSuffix(string(log), " hello\n") {
		t.Errorf("through the link the log is %q, error %v", log, err)
	}
}

func TestSecondSyncDoesNothing(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"))
	pod.Spec.InitContainers = []v1.Container{sample("i", "exit", "0")}
	s.mustSync(pod)
	s.mustSync(pod)
	before := s.files()
	if calls := s.callsDuring(func() { s.mustSync(pod) }); len(calls) > 0 {
		t.Errorf("calls %q; want none", calls)
	}
	// Nor does a podexecd that has just started.
	s.Runtime = s.restarted()
	if calls := s.callsDuring(func() { s.mustSync(pod) }); len(calls) > 0 {
		t.Errorf("calls after a restart %q; want none", calls)
	}
	if diff := cmp.Diff(before, s.files()); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

func TestInitContainersFirst(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	pod.Spec.InitContainers = []v1.Container{sample("i"), sample("j", "exit", "0")}
	s.mustSync(pod)
	s.wantContainer(pod, "i", observed.Running, 0)
	s.mustSync(pod)
	if n := len(s.status(pod).Containers); n != 1 {
		t.Fatalf("%d containers while the first init container runs", n)
	}
	s.exit(pod, "i", 0)
	s.mustSync(pod)
	s.wantContainer(pod, "j", observed.Exited, 0)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 0)
}

// failing fails the calls of one method.
func failing(method string, err error) func(string) error {
	return func(called string) error {
		if called == method {
			return err
		}
		return nil
	}
}

func TestReasonsOfFailures(t *testing.T) {
	down := status.Error(codes.Unavailable, "down")
	for method, reason := range map[string]string{
		"RunPodSandbox": "ContainerCreating", "ImageStatus": image.ImageInspectError, "CreateContainer": CreateContainerError, "StartContainer": RunContainerError,
	} {
		t.Run(method, func(t *testing.T) {
			s := newSim(t)
			pod := simPod(sample("a"), sample("b"))
			s.setFault(failing(method, down))
			res := s.sync(pod)
			if !errors.Is(res.Err, down) && !strings.Contains(res.Err.Error(), "down") {
				t.Errorf("error %v", res.Err)
			}
			for _, name := range []string{"a", "b"} {
				if res.Waiting[name].Reason != reason {
					t.Errorf("%s waits for %+v; want %s", name, res.Waiting[name], reason)
				}
			}
		})
	}
}

func TestMountFails(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	res := s.SyncPod(t.Context(), SyncInput{
		Pod: pod, Has: s.status(pod), Setup: plainSetup{err: errors.New("no such volume")},
	})
	if got := res.Waiting["a"]; got.Reason != CreateContainerConfigError || got.Message != "no such volume" || res.Err == nil {
		t.Errorf("a waits for %+v, error %v", got, res.Err)
	}
	if _, containers := s.Left(); containers != 0 {
		t.Error("a container was made all the same")
	}
}

// An object that podconfigd hasn't sent yet causes no warning.
func TestObjectIsAwaited(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	res := s.SyncPod(t.Context(), SyncInput{
		Pod: pod, Has: s.status(pod), Setup: plainSetup{err: fmt.Errorf("secret b: %w", objects.ErrUnknown)},
	})
	if got := res.Waiting["a"]; got.Reason != ContainerCreating || !errors.Is(res.Err, objects.ErrUnknown) {
		t.Errorf("a waits for %+v, error %v", got, res.Err)
	}
	all, _, _ := s.cfg.Events.After(0)
	for _, e := range all {
		if e.Type == events.Warning {
			t.Errorf("event %s: %s", e.Reason, e.Message)
		}
	}
}

// A new image restarts the container in its sandbox, whatever the policy.
func TestDefinitionChanges(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"))
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	s.mustSync(pod)
	changed := pod.DeepCopy()
	changed.Spec.Containers[0].Image = "localhost/sample:2"
	want := []string{"CreateContainer", "StartContainer", "StopContainer"}
	if diff := cmp.Diff(want, s.callsDuring(func() { s.mustSync(changed) })); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	s.wantContainer(changed, "a", observed.Running, 1)
	s.wantContainer(changed, "b", observed.Running, 0)
}

// A pod that is done is stopped, and doesn't run again, whatever happens to its sandbox.
func TestAllDone(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "exit", "0"))
	pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	s.mustSync(pod)
	for range 3 {
		s.mustSync(pod)
		if has := s.status(pod); has.Active() || len(has.Sandboxes) != 1 || len(has.Containers) != 1 {
			t.Fatalf("pod %+v; want one dead sandbox and one dead container", has)
		}
	}
}

// A podexecd that was killed between creating and starting a container continues with that attempt.
func TestCreatedAndNeverStarted(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.setFault(failing("StartContainer", status.Error(codes.Unavailable, "down")))
	s.wantWaiting(pod, "a", RunContainerError, failurePause, true)
	s.wantContainer(pod, "a", observed.Created, 0)
	s.setFault(nil)
	s.Runtime = s.restarted()
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 0)
	if _, containers := s.Left(); containers != 1 {
		t.Errorf("%d containers; want one", containers)
	}
}
