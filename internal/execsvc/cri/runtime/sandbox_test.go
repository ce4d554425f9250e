package runtime

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// The handler of the pod's RuntimeClass creates its sandbox. Without that class no sandbox is created; a class that is
// removed later doesn't keep a container from restarting.
func TestRuntimeClass(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	class := "gone"
	pod.Spec.RuntimeClassName = &class
	if res := s.sync(pod); res.Err == nil {
		t.Error("a pod was made whose class is gone")
	}
	if boxes, _ := s.Left(); boxes != 0 {
		t.Errorf("there are %d sandboxes", boxes)
	}
	want := `FailedCreatePodSandBox : Failed to create pod sandbox: runtimeclass.node.k8s.io "gone" not found`
	if got := s.events(); !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, want) }) {
		t.Errorf("events: %q; want %s", got, want)
	}
	class = "runc"
	s.mustSync(pod)
	boxes, err := s.CRI.ListPodSandbox(t.Context(), nil)
	if err != nil || len(boxes) != 1 || boxes[0].GetRuntimeHandler() != "runc" {
		t.Fatalf("sandboxes: %v, %v", boxes, err)
	}
	class = "gone"
	s.exit(pod, "a", 1)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 1)
}

// A pod whose new sandbox can't be read has an event, none of a container, and starts once it can.
func TestSandboxStatusFails(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	in := s.input(pod)
	s.setFault(func(method string) error {
		if method == "PodSandboxStatus" {
			return errDown
		}
		return nil
	})
	if res := s.SyncPod(t.Context(), in); res.Err == nil {
		t.Error("a container was started without the pod's address")
	}
	got := slices.DeleteFunc(s.events(), func(e string) bool { return strings.HasPrefix(e, "Pulled a: ") })
	want := []string{"FailedPodSandBoxStatus : Unable to get pod sandbox status: " + errDown.Error()}
	if !slices.Equal(got, want) {
		t.Errorf("the events, besides that of the image, are %q; want %q", got, want)
	}
	s.setFault(nil)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 0)
}

func TestSandboxDies(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	first := s.status(pod).Sandboxes[0].ID
	if err := s.Server.KillSandbox(first); err != nil {
		t.Fatal(err)
	}
	// A sandbox that dies at once isn't recreated as fast as it dies.
	if res := s.sync(pod); res.RetryAfter != time.Second || res.Acted || res.Err != nil {
		t.Errorf("at once: %+v; want nothing done before a second is over", res)
	}
	s.clock.Step(time.Second)
	s.mustSync(pod)
	has := s.status(pod)
	a := s.wantContainer(pod, "a", observed.Running, 1)
	if box := has.ReadySandbox(); box == nil || box.Attempt != 1 || a.SandboxID != box.ID || len(box.IPs) != 1 {
		t.Errorf("a runs in %s; sandboxes are %+v", a.SandboxID, has.Sandboxes)
	}
	if got := s.events(); !slices.Contains(got, "SandboxChanged : Pod sandbox changed, it will be killed and re-created.") {
		t.Errorf("events %q; want SandboxChanged", got)
	}
	// The old sandbox goes when its last container does.
	s.exit(pod, "a", 1)
	s.clock.Step(time.Minute)
	s.mustSync(pod)
	s.mustSync(pod)
	if has := s.status(pod); len(has.Sandboxes) != 1 || len(has.Containers) != 2 {
		t.Errorf("%d sandboxes and %d containers are left; want 1 and 2", len(has.Sandboxes), len(has.Containers))
	}
}

// A container that was stopped with its sandbox before its end starts again in the next one once the init containers
// are done, even if it ended well.
func TestSandboxDiesAroundRunningContainers(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]observed.State{
		v1.RestartPolicyOnFailure: observed.Running, v1.RestartPolicyNever: observed.Exited,
	} {
		s := newSim(t)
		pod := simPod(withPreStop(sample("a")))
		pod.Spec.RestartPolicy = policy
		s.hooks.run = func(context.Context, string) error { s.exit(pod, "a", 0); return nil }
		pod.Spec.InitContainers = []v1.Container{sample("i", "exit", "0")}
		has := s.settle(pod)
		s.clock.Step(time.Second)
		changed := *has
		changed.Sandboxes = slices.Clone(has.Sandboxes)
		changed.Sandboxes[0].IPs = nil
		in := s.input(pod)
		in.Has = &changed
		if res := s.SyncPod(t.Context(), in); res.Err != nil {
			t.Fatal(res.Err)
		}
		if a := s.status(pod).Latest("a"); a.State != observed.Exited || a.ExitCode != 0 {
			t.Fatalf("a is %+v; want it ended well", a)
		}
		s.settle(pod)
		if a := s.status(pod).Latest("a"); a.State != want {
			t.Errorf("under %s a is %+v; want state %v", policy, a, want)
		}
	}
}
