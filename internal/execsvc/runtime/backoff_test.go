package runtime

import (
	"github.com/podstream/podstream/internal/execsvc/observed"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
)

func TestCrashLoop(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	attempt := uint32(0)
	s.mustSync(pod)
	crash := func() {
		t.Helper()
		s.wantContainer(pod, "a", observed.Running, attempt)
		s.clock.Step(time.Second)
		s.exit(pod, "a", 1)
		attempt++
	}
	restartAtOnce := func() {
		t.Helper()
		crash()
		s.mustSync(pod)
	}
	restartAfter := func(pause time.Duration) {
		t.Helper()
		crash()
		message := s.wantWaiting(pod, "a", CrashLoopBackOff, pause, false)
		if want := "back-off " + pause.String() + " restarting failed container=a pod=web_default(uid-1)"; message != want {
			t.Fatalf("message %q; want %q", message, want)
		}
		s.clock.Step(pause - time.Second)
		s.wantWaiting(pod, "a", CrashLoopBackOff, time.Second, false)
		s.clock.Step(time.Second)
		s.mustSync(pod)
	}
	restartAtOnce()
	for _, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
		restartAfter(time.Duration(seconds) * time.Second)
		s.ForgetBackoff()
	}
	// Ten minutes of running, and all is forgiven.
	s.clock.Step(10 * time.Minute)
	restartAtOnce()
	restartAfter(10 * time.Second)

	// Of the dead ones the last is kept, with its log.
	if n := len(s.status(pod).Containers); n != 2 {
		t.Errorf("%d containers are left; want the running one and the last dead one", n)
	}
	if files := s.files(); len(files) != 4 {
		t.Errorf("files %q; want two logs and the links to them", files)
	}
}

// One that ended well is restarted by the same rule.
func TestOtherContainersRunOn(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "exit", "0"), sample("b"))
	s.mustSync(pod)
	s.mustSync(pod)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
	s.wantContainer(pod, "b", observed.Running, 0)
}

func TestMissingCommand(t *testing.T) {
	s := newSim(t)
	c := sample("a")
	c.Command = []string{"/nope"}
	pod := simPod(c)
	for range 2 {
		if m := s.wantWaiting(pod, "a", RunContainerError, 0, true); !strings.Contains(m, `exec: "/nope": executable file not found`) {
			t.Errorf("message %q", m)
		}
	}
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
	s.clock.Step(10 * time.Second)
	s.wantWaiting(pod, "a", RunContainerError, 0, true)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 20*time.Second, false)
}

func TestImagePull(t *testing.T) {
	s := newSim(t)
	c := sample("a")
	c.Image = "sim/app:1"
	pod := simPod(c)
	if calls := s.callsDuring(func() { s.mustSync(pod) }); !slices.Contains(calls, "PullImage") {
		t.Errorf("calls %q; want a PullImage", calls)
	}
	if a := s.wantContainer(pod, "a", observed.Running, 0); a.Image != "docker.io/sim/app:1" && a.Image != "sim/app:1" {
		t.Errorf("image %q", a.Image)
	}
	s.exit(pod, "a", 1)
	if calls := s.callsDuring(func() { s.mustSync(pod) }); slices.Contains(calls, "PullImage") {
		t.Errorf("calls %q; want no PullImage: it is there", calls)
	}
	s.exit(pod, "a", 1)
	s.clock.Step(10 * time.Second)
	pod.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	if calls := s.callsDuring(func() { s.mustSync(pod) }); !slices.Contains(calls, "PullImage") {
		t.Errorf("calls %q; want a PullImage by the policy Always", calls)
	}
}

func TestImagePullBackOff(t *testing.T) {
	s := newSim(t)
	c := sample("a")
	c.Image = "missing/app:1"
	pod := simPod(c, sample("b"))
	for _, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
		pause := time.Duration(seconds) * time.Second
		s.wantWaiting(pod, "a", ErrImagePull, pause, true)
		if m := s.wantWaiting(pod, "a", ImagePullBackOff, pause, false); m != `Back-off pulling image "missing/app:1"` {
			t.Fatalf("message %q", m)
		}
		// However often it is looked at meanwhile, the next pull comes when it was to come.
		s.clock.Step(pause / 2)
		s.ForgetBackoff()
		s.wantWaiting(pod, "a", ImagePullBackOff, pause/2, false)
		s.clock.Step(pause / 2)
	}
	s.wantContainer(pod, "b", observed.Running, 0)
	s.clock.Step(time.Hour)
	s.ForgetBackoff()
	if len(s.pullFailed) != 0 {
		t.Errorf("%v is remembered for ever", s.pullFailed)
	}
	s.wantWaiting(pod, "a", ErrImagePull, 10*time.Second, true)
}

func TestImagePullRecovers(t *testing.T) {
	s := newSim(t)
	c := sample("a")
	c.Image = "sim/app:1"
	pod := simPod(c)
	s.setFault(failing("PullImage", status.Error(codes.Unavailable, "registry is down")))
	s.wantWaiting(pod, "a", ErrImagePull, 10*time.Second, true)
	s.setFault(nil)
	s.clock.Step(10 * time.Second)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 0)
}

func TestErrImageNeverPull(t *testing.T) {
	s := newSim(t)
	c := sample("a")
	c.Image, c.ImagePullPolicy = "sim/app:1", v1.PullNever
	calls := s.callsDuring(func() {
		m := s.wantWaiting(simPod(c), "a", ErrImageNeverPull, 0, true)
		if m != `container image "sim/app:1" is not present with pull policy of Never` {
			t.Errorf("message %q", m)
		}
	})
	if slices.Contains(calls, "PullImage") {
		t.Errorf("calls %q; want no PullImage", calls)
	}
}
