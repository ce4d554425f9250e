package runtime

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
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
		s.DropBackoff()
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

// A resize ends CrashLoopBackOff: what the container lacked may be there now.
func TestResizeEndsBackoff(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.crashTwice(pod)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
	same := pod.DeepCopy()
	s.wantWaiting(same, "a", CrashLoopBackOff, 10*time.Second, false)
	larger := pod.DeepCopy()
	larger.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
	s.mustSync(larger)
	s.wantContainer(larger, "a", observed.Running, 2)
	s.exit(larger, "a", 1)
	written := larger.DeepCopy()
	written.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1024Mi")}
	s.wantWaiting(written, "a", CrashLoopBackOff, 10*time.Second, false)
}

// crashTwice starts the pod, and ends container a twice: it is in backoff then.
func (s *sim) crashTwice(pod *v1.Pod) {
	s.t.Helper()
	s.mustSync(pod)
	s.exit(pod, "a", 1)
	s.mustSync(pod)
	s.exit(pod, "a", 1)
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
		if m := s.wantWaiting(pod, "a", RunContainerError, failurePause, true); !strings.Contains(m, `exec: "/nope": executable file not found`) {
			t.Errorf("message %q", m)
		}
	}
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
	s.clock.Step(10 * time.Second)
	s.wantWaiting(pod, "a", RunContainerError, failurePause, true)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 20*time.Second, false)
}
