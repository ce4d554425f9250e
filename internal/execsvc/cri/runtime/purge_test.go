package runtime

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

func TestPurgeLeavesNothing(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b", "exit", "0"))
	s.mustSync(pod)
	s.mustSync(pod)
	if err := s.Server.KillSandbox(s.status(pod).Sandboxes[0].ID); err != nil {
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
	if sandboxes, containers := s.Left(); sandboxes+containers > 0 {
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
	s.Server.DropAll()
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

// A sandbox of the kubelet, or of another podexecd, is never touched, even if it has the UID of one of this agent's
// pods.
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
				delete(config.Annotations, podmeta.AgentAnnotation)
				delete(container.Annotations, podmeta.AgentAnnotation)
			}
			sandbox, err := s.CRI.RunPodSandbox(t.Context(), config, "")
			if err != nil {
				t.Fatal(err)
			}
			id, err := s.CRI.CreateContainer(t.Context(), sandbox, container, config)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.CRI.StartContainer(t.Context(), id); err != nil {
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
			resp, err := s.CRI.ContainerStatus(t.Context(), id, false)
			if err != nil || observed.StateOf(resp.GetStatus().GetState()) != observed.Running {
				t.Errorf("the foreign container is %v, error %v; want it running", resp.GetStatus().GetState(), err)
			}
			if sandboxes, containers := s.Left(); sandboxes != 1 || containers != 1 {
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
	// An ended container is kept beside the one before it until the next round.
	s.sync(pod)
	var got []string
	for _, c := range s.status(pod).Containers {
		got = append(got, podmeta.LogPath(c.Name, c.Attempt))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a/3.log", "b/3.log", "c/0.log"}, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if files := s.files(); len(files) != 6 {
		t.Errorf("files %q; want a log and a link for each", files)
	}
}
