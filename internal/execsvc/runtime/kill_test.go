package runtime

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// kill kills the pod in a goroutine of its own.
func (s *sim) kill(pod *v1.Pod, has *observed.Pod, grace int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.KillPod(s.t.Context(), pod, has, Grace{Seconds: grace}) }()
	return done
}

// wantTimers waits until the runtime waits for so many containers to end by themselves, and checks how long it does.
func (s *sim) wantTimers(n int, want time.Duration) {
	s.t.Helper()
	for range n {
		if got := <-s.clock.timers; got != want {
			s.t.Fatalf("a container gets %v to end; want %v", got, want)
		}
	}
}

func TestKillPodGrace(t *testing.T) {
	for grace, want := range map[int64]time.Duration{30: 30 * time.Second, 1: 2 * time.Second, 0: 2 * time.Second, -5: 2 * time.Second, math.MaxInt64: math.MaxInt32 * time.Second} {
		s := newSim(t)
		pod := simPod(sample("a", "ignore-term"), sample("b", "ignore-term"))
		s.mustSync(pod)
		done := s.kill(pod, s.status(pod), grace)
		// Both at once: they share the grace period.
		s.wantTimers(2, want)
		s.clock.Step(want)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		has := s.status(pod)
		if has.Active() || has.Latest("a").ExitCode != 137 || has.Latest("b").ExitCode != 137 {
			t.Errorf("grace %d: pod %+v; want both killed", grace, has)
		}
	}
}

func TestKillPodEndsBySignal(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b", "exit", "0"))
	s.mustSync(pod)
	if err := <-s.kill(pod, s.status(pod), 30); err != nil {
		t.Fatal(err)
	}
	has := s.status(pod)
	if has.Active() || has.Latest("a").ExitCode != 143 || has.Latest("b").ExitCode != 0 {
		t.Errorf("pod %+v", has)
	}
}

func TestKillPodOfWhatIsGone(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	has := s.status(pod)
	for range 2 {
		if err := <-s.kill(pod, has, 30); err != nil {
			t.Fatal(err)
		}
	}
	s.server.Forget()
	if err := <-s.kill(pod, has, 30); err != nil {
		t.Fatal(err)
	}
	// Not every runtime holds itself to the CRI there.
	s.setFault(func(string) error { return status.Error(codes.NotFound, "no such thing") })
	if err := <-s.kill(pod, has, 30); err != nil {
		t.Error(err)
	}
	if err := s.Purge(t.Context(), pod, has); err != nil {
		t.Error(err)
	}
}

func TestKillPodFails(t *testing.T) {
	for _, method := range []string{"StopContainer", "StopPodSandbox"} {
		s := newSim(t)
		pod := simPod(sample("a"))
		s.mustSync(pod)
		s.setFault(failing(method, status.Error(codes.Unavailable, "down")))
		if err := <-s.kill(pod, s.status(pod), 30); err == nil {
			t.Errorf("no error although %s failed", method)
		}
	}
}

// A container's grace period is counted from when it was told to end, over failures and lives of the agent; until it has been told, that
// the pod was to end long ago takes nothing from it.
func TestKillPodGraceOfEach(t *testing.T) {
	const grace = 30 * time.Second
	for _, tt := range []struct {
		name string
		// told and since are how long ago the container had its SIGTERM and the grace period was set. Negative: it hasn't, and it wasn't.
		told, since, want time.Duration
	}{
		{"told now", -1, -1, grace},
		{"to end long ago, and not told", -1, time.Hour, grace},
		{"told a while ago", 20 * time.Second, time.Hour, 10 * time.Second},
		{"told long ago", time.Hour, time.Hour, minGrace * time.Second},
		{"told long ago, and again now", time.Hour, 0, grace},
		{"told long ago, and again a while ago", time.Hour, 12 * time.Second, 18 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSim(t)
			pod := simPod(sample("a", "ignore-term"))
			s.mustSync(pod)
			has := s.status(pod)
			g := Grace{Seconds: 30}
			if tt.told >= 0 {
				s.RestoreTold(has.Containers[0].ID, s.clock.Now().Add(-tt.told))
			}
			if tt.since >= 0 {
				g.Since = s.clock.Now().Add(-tt.since)
			}
			done := make(chan error, 1)
			go func() { done <- s.KillPod(s.t.Context(), pod, has, g) }()
			s.wantTimers(1, tt.want)
			s.clock.Step(tt.want)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// That a container was told to end is told when it runs on, and not if the runtime couldn't tell it.
func TestKillPodTold(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "ignore-term"))
	s.mustSync(pod)
	has := s.status(pod)
	begun, told := s.clock.Now(), make(chan time.Time, 2)
	grace := Grace{Seconds: 30, Told: func(id string, at time.Time) {
		if id != has.Containers[0].ID {
			t.Errorf("container %s was told", id)
		}
		told <- at
	}}
	s.setFault(failing("StopContainer", errDown))
	if err := s.KillPod(t.Context(), pod, has, grace); err == nil {
		t.Error("no error although the runtime is down")
	}
	s.clock.Step(10 * time.Second)
	s.setFault(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.KillPod(ctx, pod, has, grace) }()
	s.wantTimers(1, 30*time.Second)
	if at := <-told; !at.Equal(begun.Add(10 * time.Second)) {
		t.Errorf("it was told at %v; want when the runtime was there, %v", at, begun.Add(10*time.Second))
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a kill that was cut short is no success")
	}
	// It goes on from there.
	s.clock.Step(5 * time.Second)
	go func() { done <- s.KillPod(t.Context(), pod, has, grace) }()
	s.wantTimers(1, 25*time.Second)
	s.clock.Step(25 * time.Second)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPurgeLeavesNothing(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b", "exit", "0"))
	s.mustSync(pod)
	s.mustSync(pod)
	if err := s.server.KillSandbox(s.status(pod).Sandboxes[0].ID); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(time.Hour)
	s.mustSync(pod)
	if err := <-s.kill(pod, s.status(pod), 30); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), pod, s.status(pod)); err != nil {
		t.Fatal(err)
	}
	if sandboxes, containers := s.left(); sandboxes+containers > 0 {
		t.Errorf("%d sandboxes and %d containers are left", sandboxes, containers)
	}
	s.wantNoLogs()
	if err := s.Purge(t.Context(), pod, s.status(pod)); err != nil {
		t.Errorf("purge what is purged: %v", err)
	}
}

func (s *sim) wantNoLogs() {
	s.t.Helper()
	dirs, err := os.ReadDir(filepath.Join(s.root, "pods"))
	if err != nil {
		s.t.Fatal(err)
	}
	if files := s.files(); len(dirs) > 0 || len(files) > 0 {
		s.t.Errorf("log directories %v and files %q are left", dirs, files)
	}
}

// The logs of a pod go even if the runtime has lost it.
func TestPurgeOfLostPod(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	s.server.Forget()
	if err := s.Purge(t.Context(), pod, s.status(pod)); err != nil {
		t.Fatal(err)
	}
	s.wantNoLogs()
}

func TestRemoveLogsOf(t *testing.T) {
	s := newSim(t)
	dirs := []string{"default_web_uid-1", "default_job_uid-1", "default_web_other_uid-1", "default_web_uid-12"}
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(s.root, "pods", d, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveLogsOf("uid-1"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(s.root, "pods"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range left {
		got = append(got, d.Name())
	}
	// A UID from a manifest may have an underscore in it.
	if diff := cmp.Diff([]string{"default_web_other_uid-1", "default_web_uid-12"}, got); diff != "" {
		t.Errorf("directories left (-want +got):\n%s", diff)
	}
	for _, uid := range []types.UID{"", "..", "a/b"} {
		if s.RemoveLogsOf(uid) == nil {
			t.Errorf("UID %q isn't refused", uid)
		}
	}
}

// A sandbox of the kubelet, or of another podexecd, is none of ours, even if it bears a pod's UID that we have, too.
func TestForeignSandboxes(t *testing.T) {
	for name, agent := range map[string]string{"no agent": "", "another agent": "you"} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			pod := simPod(sample("a"))
			config, err := criconfig.SandboxConfig(criconfig.SandboxInput{Pod: pod, Attempt: 7, Agent: agent})
			if err != nil {
				t.Fatal(err)
			}
			config.LogDirectory = ""
			container, err := criconfig.ContainerConfig(criconfig.ContainerInput{
				Pod: pod, Container: &pod.Spec.Containers[0], Attempt: 7, ImageRef: "localhost/sample:1", Agent: agent,
			})
			if err != nil {
				t.Fatal(err)
			}
			if agent == "" {
				delete(config.Annotations, criconfig.AgentAnnotation)
				delete(container.Annotations, criconfig.AgentAnnotation)
			}
			sandbox, err := s.cri.RunPodSandbox(t.Context(), config, "")
			if err != nil {
				t.Fatal(err)
			}
			id, err := s.cri.CreateContainer(t.Context(), sandbox, container, config)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.cri.StartContainer(t.Context(), id); err != nil {
				t.Fatal(err)
			}

			s.wantListed()
			if has := s.status(pod); len(has.Sandboxes)+len(has.Containers) > 0 {
				t.Fatalf("pod %+v; want nothing of it", has)
			}
			s.mustSync(pod)
			s.wantListed("uid-1")
			s.wantContainer(pod, "a", observed.Running, 0)
			if err := <-s.kill(pod, s.status(pod), 30); err != nil {
				t.Fatal(err)
			}
			if err := s.Purge(t.Context(), pod, s.status(pod)); err != nil {
				t.Fatal(err)
			}
			s.wantListed()
			resp, err := s.cri.ContainerStatus(t.Context(), id, false)
			if err != nil || stateOf(resp.GetStatus().GetState()) != observed.Running {
				t.Errorf("the foreign container is %v, error %v; want it running", resp.GetStatus().GetState(), err)
			}
			if sandboxes, containers := s.left(); sandboxes != 1 || containers != 1 {
				t.Errorf("%d sandboxes and %d containers are left; want the foreign ones", sandboxes, containers)
			}
		})
	}
}

func TestPruneKeepsTheLastOfEachName(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "exit", "1"), sample("b", "exit", "2"), sample("c"))
	for range 4 {
		s.clock.Step(time.Hour)
		s.mustSync(pod)
	}
	// What just ended is there besides the one before, until the next round.
	s.sync(pod)
	var got []string
	for _, c := range s.status(pod).Containers {
		got = append(got, criconfig.LogPath(c.Name, c.Attempt))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a/3.log", "b/3.log", "c/0.log"}, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if files := s.files(); len(files) != 6 {
		t.Errorf("files %q; want a log and a link for each", files)
	}
}
