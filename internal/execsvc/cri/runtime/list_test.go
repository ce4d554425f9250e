package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func TestStatusInFull(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b", "exit", "3"))
	s.mustSync(pod)
	has := s.status(pod)
	if has.UID != "uid-1" || has.Namespace != "default" || has.Name != "web" || has.Source != "file" || !has.ReadAt.Equal(s.clock.Now()) {
		t.Errorf("pod %+v", has)
	}
	box := has.ReadySandbox()
	if box == nil || len(box.IPs) != 1 || box.HostNetwork || box.Attempt != 0 {
		t.Errorf("sandbox %+v; want it ready, with an address", box)
	}
	a, b := has.Latest("a"), has.Latest("b")
	if a.State != observed.Running || a.Image != "localhost/sample:1" || !a.Started.Equal(s.clock.Now()) || !a.Finished.IsZero() ||
		a.SandboxID != box.ID || *a.GracePeriod != 30 {
		t.Errorf("a is %+v", a)
	}
	if b.State != observed.Exited || b.ExitCode != 3 || b.Reason != "Error" || !b.Finished.Equal(s.clock.Now()) {
		t.Errorf("b is %+v", b)
	}
	if !has.Active() {
		t.Error("the pod isn't active")
	}
}

// reporting is a runtime that reports its containers' users and signals, as containerd does from 2.0 on.
type reporting struct{ internalapi.RuntimeService }

func (r reporting) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := r.RuntimeService.ContainerStatus(ctx, id, verbose)
	if s := resp.GetStatus(); s != nil {
		s.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 7, Gid: 8, SupplementalGroups: []int64{8, 9}}}
		s.StopSignal = runtimeapi.Signal_SIGNAL_SIGRTMINPLUS1
	}
	return resp, err
}

func TestUserAndSignalAreReported(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	if a := s.status(pod).Latest("a"); a.User != nil || a.StopSignal != nil {
		t.Errorf("the runtime says nothing, and it has the user %v and the signal %v", a.User, a.StopSignal)
	}
	s = newSim(t)
	s.cfg.Runtime = reporting{s.cfg.Runtime}
	s.mustSync(pod)
	a := s.status(pod).Latest("a")
	want := &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: 7, GID: 8, SupplementalGroups: []int64{8, 9}}}
	if diff := cmp.Diff(want, a.User); diff != "" || a.StopSignal == nil || *a.StopSignal != v1.SIGRTMINPLUS1 {
		t.Errorf("the signal is %v, the user (-want +got):\n%s", a.StopSignal, diff)
	}
}

func TestStatusOfUnknownPod(t *testing.T) {
	s := newSim(t)
	has := s.status(simPod())
	if has.UID != "uid-1" || len(has.Sandboxes)+len(has.Containers) > 0 || has.Active() || !has.ReadAt.Equal(s.clock.Now()) {
		t.Errorf("pod %+v; want it empty", has)
	}
}

// The details of a container change with its state only: they are read once in each.
func TestStatusRemembersDetails(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b", "exit", "3"))
	s.mustSync(pod)
	wantAsked := func(when string, want int) {
		t.Helper()
		before := s.Server.Calls()["ContainerStatus"]
		s.status(pod)
		if got := s.Server.Calls()["ContainerStatus"] - before; got != want {
			t.Errorf("%s: asked for %d containers; want %d", when, got, want)
		}
	}
	wantAsked("at first", 2)
	wantAsked("again", 0)
	s.wantListed("uid-1")
	wantAsked("after a list", 0)
	s.exit(pod, "a", 1)
	wantAsked("after an end", 1)
	if a := s.status(pod).Latest("a"); a.State != observed.Exited || a.ExitCode != 1 {
		t.Errorf("a is %+v; want it exited with 1", a)
	}
	wantAsked("after that", 0)
	s.Server.DropAll()
	s.wantListed()
	if len(s.remembered()) != 0 {
		t.Errorf("containers that are gone are remembered: %v", s.remembered())
	}
}

// Containers are ordered by attempt even where their times of creation are the same, or run backwards.
func TestAttemptsAreOrdered(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	for attempt := range uint32(4) {
		s.mustSync(pod)
		s.wantContainer(pod, "a", observed.Running, attempt)
		s.exit(pod, "a", 1)
		s.clock.SetTime(s.clock.Now().Add(-time.Hour))
		s.Runtime = s.restarted()
	}
}

func TestVersion(t *testing.T) {
	s := newSim(t)
	name, version, err := s.Version(t.Context())
	if err != nil || name == "" || version == "" {
		t.Errorf("%q, %q, %v", name, version, err)
	}
	s.setFault(failing("Version", status.Error(codes.Unavailable, "down")))
	if _, _, err := s.Version(t.Context()); err == nil {
		t.Error("no error although the runtime doesn't answer")
	}
}

// A start that was interrupted by the agent's restart is repeated as the same attempt; one that failed by itself isn't.
func TestCutShort(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		seen, started bool
		want          bool
	}{
		{name: "the call was given up", message: "failed to start containerd task: context canceled: unknown", want: true},
		{name: "the shim was killed with the call", message: "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown", want: true},
		{name: "killed under the eyes of this agent", message: "start failed: : signal: killed: unknown", seen: true},
		{name: "there is no such command", message: `exec: "/nope": no such file or directory: unknown`},
		{name: "it ran", message: "signal: killed", started: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := New(Config{})
			c := &observed.Container{ID: "c1", State: observed.Exited, Message: tc.message}
			if tc.started {
				c.Started = time.Unix(1, 0)
			}
			r.failedStarts[c.ID] = tc.seen
			if got := r.cutShort(c); got != tc.want {
				t.Errorf("cut short: %t; want %t", got, tc.want)
			}
		})
	}
}

// A container whose annotations are invalid stops without its hook.
func TestUnreadableAnnotations(t *testing.T) {
	r := New(Config{})
	s := &runtimeapi.ContainerStatus{Annotations: map[string]string{
		criconfig.PreStopHandlerAnnotation: `{"exec":{"command":["bye"]}, "sleep": 7}`, criconfig.PortsAnnotation: `[{"name":"http"}]`,
	}}
	if got := recorded[*v1.LifecycleHandler](r, s, criconfig.PreStopHandlerAnnotation); got != nil {
		t.Errorf("the hook is %v; want none", got)
	}
	if got := recorded[[]v1.ContainerPort](r, s, criconfig.PortsAnnotation); len(got) != 1 || got[0].Name != "http" {
		t.Errorf("the ports are %v", got)
	}
}
