package runtime

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// large is an annotation of which a message holds three: the CRI's limit is 16 MiB.
var large = strings.Repeat("x", 5<<20)

// big makes a sandbox and a container of an agent, past the Runtime, with so many large annotations on each. It returns
// the sandbox's ID.
func (s *sim) big(uid types.UID, agent string, onSandbox, onContainer int) string {
	s.t.Helper()
	labels := map[string]string{podmeta.PodUIDLabel: string(uid), podmeta.PodNamespaceLabel: "default", podmeta.PodNameLabel: string(uid)}
	annotations := func(n int) map[string]string {
		out := map[string]string{podmeta.AgentAnnotation: agent}
		for i := range n {
			out[fmt.Sprint("large-", i)] = large
		}
		return out
	}
	box := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: string(uid), Namespace: "default", Uid: string(uid)},
		Labels:   labels, Annotations: annotations(onSandbox),
	}
	id, err := s.CRI.RunPodSandbox(s.t.Context(), box, "")
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.CRI.CreateContainer(s.t.Context(), id, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: "localhost/sample:1"},
		Labels: labels, Annotations: annotations(onContainer),
	}, box)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// wantLists lists, and checks what is found and in how many calls. Each pod must have one sandbox and one container.
func (s *sim) wantLists(sandboxLists, containerLists int, want ...types.UID) {
	s.t.Helper()
	before := s.Server.Calls()
	pods, err := s.List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	after := s.Server.Calls()
	for method, n := range map[string]int{"ListPodSandbox": sandboxLists, "ListContainers": containerLists} {
		if got := after[method] - before[method]; got != n {
			s.t.Fatalf("%d calls of %s; want %d", got, method, n)
		}
	}
	var got []types.UID
	for _, p := range pods {
		got = append(got, p.UID)
		if len(p.Sandboxes) != 1 || len(p.Containers) != 1 || p.Containers[0].SandboxID != p.Sandboxes[0].ID {
			s.t.Fatalf("pod %s has sandboxes %v and containers %v; want one of each", p.UID, p.Sandboxes, p.Containers)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		s.t.Fatalf("List has %v; want %v", got, want)
	}
}

// If one message can't hold all containers, they are listed sandbox by sandbox. A list of all is retried after growing
// pauses.
func TestTooManyContainers(t *testing.T) {
	s := newSim(t)
	var log bytes.Buffer
	s.Runtime.log = slog.New(slog.NewTextHandler(&log, nil))
	for _, uid := range []types.UID{"a", "b", "c"} {
		s.big(uid, "me", 0, 1)
	}
	s.wantLists(1, 1, "a", "b", "c")
	last := s.big("d", "me", 0, 1)
	s.big("foreign", "another agent", 0, 0)
	s.wantLists(1, 1+4, "a", "b", "c", "d")
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		s.clock.Step(pause - time.Nanosecond)
		s.wantLists(1, 4, "a", "b", "c", "d")
		s.clock.Step(time.Nanosecond)
		s.wantLists(1, 1+4, "a", "b", "c", "d")
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "list=containers") {
		t.Errorf("logged %q; want one line", log.String())
	}

	// A sandbox may be removed after it was listed, and a runtime may return NotFound where others return an empty
	// list.
	s.setFault(failing("ListContainers", status.Error(codes.NotFound, "gone")))
	s.wantListed("a", "b", "c", "d")
	s.setFault(nil)

	if err := s.CRI.RemovePodSandbox(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	s.wantLists(1, 3, "a", "b", "c")
	s.clock.Step(80 * time.Second)
	s.wantLists(1, 1, "a", "b", "c")
	s.big("d", "me", 0, 1)
	s.wantLists(1, 1+4, "a", "b", "c", "d")
}

// Another failure of the runtime causes no lists in parts, and no pause.
func TestOtherFailuresOfLists(t *testing.T) {
	s := newSim(t)
	s.big("a", "me", 0, 0)
	for _, method := range []string{"ListPodSandbox", "ListContainers"} {
		before := s.Server.Calls()[method]
		s.setFault(failing(method, status.Error(codes.Unavailable, "down")))
		if _, err := s.List(t.Context()); status.Code(err) != codes.Unavailable {
			t.Errorf("%s fails: %v", method, err)
		}
		if n := s.Server.Calls()[method] - before; n != 1 {
			t.Errorf("%d calls of %s; want one", n, method)
		}
		s.setFault(nil)
		s.wantLists(1, 1, "a")
	}
}

// Sandboxes that don't fit into one message are listed by state. The CRI has no smaller lists: if that isn't enough,
// the error says so.
func TestTooManySandboxes(t *testing.T) {
	s := newSim(t)
	for _, uid := range []types.UID{"a", "b", "c"} {
		id := s.big(uid, "me", 1, 0)
		if uid == "c" {
			continue
		}
		if err := s.CRI.StopPodSandbox(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	s.wantLists(1, 1, "a", "b", "c")
	dying := s.big("d", "me", 1, 0)
	s.wantLists(1+2, 1, "a", "b", "c", "d")
	s.wantLists(2, 1, "a", "b", "c", "d")
	pods, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if want := p.UID == "c" || p.UID == "d"; p.Sandboxes[0].Ready != want {
			t.Errorf("the sandbox of %s is ready: %t; want %t", p.UID, !want, want)
		}
	}

	// One that stops being ready between the two answers is in both.
	asked := 0
	s.setFault(func(method string) error {
		if method != "ListPodSandbox" {
			return nil
		}
		if asked++; asked == 2 {
			return s.Server.KillSandbox(dying)
		}
		return nil
	})
	s.wantLists(2, 1, "a", "b", "c", "d")
	s.setFault(nil)

	s.big("e", "me", 3, 0)
	_, err = s.List(t.Context())
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "those in state SANDBOX_READY alone are too many") {
		t.Errorf("error %v; want it to name the state and the limit", err)
	}
}
