package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// watching is a Watch under way.
type watching struct {
	t       *testing.T
	changed chan types.UID
	ended   chan error
	cancel  context.CancelFunc
	// unnamed counts the calls without a UID that were taken.
	unnamed int
}

func watch(t *testing.T, r *Runtime) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{t: t, changed: make(chan types.UID, 100), ended: make(chan error, 1), cancel: cancel}
	go func() { w.ended <- r.Watch(ctx, func(reported *observed.Pod) { w.changed <- uidOf(reported) }) }()
	t.Cleanup(cancel)
	return w
}

// uidOf is the UID of a call, or "".
func uidOf(reported *observed.Pod) types.UID {
	if reported == nil {
		return ""
	}
	return reported.UID
}

// next waits for the next call.
func (w *watching) next() types.UID {
	w.t.Helper()
	select {
	case uid := <-w.changed:
		if uid == "" {
			w.unnamed++
		}
		return uid
	case err := <-w.ended:
		w.t.Fatalf("Watch has ended: %v", err)
		return ""
	}
}

// want waits for the next calls with UIDs; those without may come between.
func (w *watching) want(uids ...types.UID) {
	w.t.Helper()
	for _, want := range uids {
		got := w.next()
		for got == "" {
			got = w.next()
		}
		if got != want {
			w.t.Fatalf("changed was called with %q; want %q", got, want)
		}
	}
}

// wantUnnamed waits until there have been so many calls without a UID, and none with one since the last want.
func (w *watching) wantUnnamed(n int) {
	w.t.Helper()
	for w.unnamed < n {
		if uid := w.next(); uid != "" {
			w.t.Fatalf("changed was called with %q", uid)
		}
	}
}

// end waits for the end, and returns why. There must have been no more calls.
func (w *watching) end() error {
	w.t.Helper()
	err := <-w.ended
	if n := len(w.changed); n > 0 {
		w.t.Fatalf("changed was called %d more times, first with %q", n, <-w.changed)
	}
	return err
}

// runSandbox makes a sandbox of the pod as the agent of that name.
func (s *sim) runSandbox(pod *v1.Pod, agent string) string {
	s.t.Helper()
	config, err := criconfig.SandboxConfig(criconfig.SandboxInput{Pod: pod, Agent: agent, LogsDir: filepath.Join(s.root, "pods")})
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := s.CRI.RunPodSandbox(s.t.Context(), config, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// Each event of a pod of this agent leads to one call, and no event of other pods does. One more call reports
// that the stream is open. Earlier events may be reported too.
func TestWatch(t *testing.T) {
	s := newSim(t)
	before := simPod()
	before.UID, before.Name = "uid-0", "before"
	s.runSandbox(before, "me")
	w := watch(t, s.Runtime)
	pod, other := simPod(), simPod()
	other.UID, other.Name = "uid-2", "other"
	s.runSandbox(other, "another agent")
	id := s.runSandbox(pod, "me")
	// Each is created, and is started.
	w.want("uid-0", "uid-0", "uid-1", "uid-1")
	if err := s.Server.KillSandbox(id); err != nil {
		t.Fatal(err)
	}
	w.want("uid-1")
	w.wantUnnamed(1)
	// Of a sandbox that is gone, only its removal is reported.
	if err := s.CRI.RemovePodSandbox(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.wantUnnamed(2)
	w.cancel()
	if err := w.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v", err)
	}
}

// A stream that broke is an error, and the next Watch goes on.
func TestWatchAgain(t *testing.T) {
	s := newSim(t)
	pod := simPod()
	w := watch(t, s.Runtime)
	id := s.runSandbox(pod, "me")
	w.want("uid-1", "uid-1")
	w.wantUnnamed(1)
	s.Server.BreakEvents()
	if err := w.end(); status.Code(err) != codes.Unavailable {
		t.Errorf("Watch: %v", err)
	}
	if err := s.Server.KillSandbox(id); err != nil {
		t.Fatal(err)
	}
	w = watch(t, s.Runtime)
	w.want("uid-1")
	w.wantUnnamed(1)
}

func TestWatchWithoutEvents(t *testing.T) {
	s := newSim(t)
	s.setFault(func(method string) error {
		if method == "GetContainerEvents" {
			return status.Error(codes.Unimplemented, "unknown method GetContainerEvents for service runtime.v1.RuntimeService")
		}
		return nil
	})
	err := s.Watch(t.Context(), func(reported *observed.Pod) { t.Errorf("changed was called with %v", reported) })
	if !errors.Is(err, observed.ErrNoEvents) {
		t.Errorf("Watch: %v", err)
	}
}

// The agent of an event is in its sandbox, or else in its containers; an event without it may be of any agent.
func TestWatchReportsAgent(t *testing.T) {
	container := func(uid, agent string) *runtimeapi.ContainerEventResponse {
		return &runtimeapi.ContainerEventResponse{ContainersStatuses: []*runtimeapi.ContainerStatus{{
			Labels: map[string]string{podmeta.PodUIDLabel: uid}, Annotations: map[string]string{podmeta.AgentAnnotation: agent},
		}}}
	}
	cri := newEventRuntime(false)
	w := watch(t, New(Config{Runtime: cri, Agent: "me"}))
	for _, e := range []*runtimeapi.ContainerEventResponse{
		event("a", "me"), event("b", "you"), container("c", "me"), container("d", "you"), {ContainerId: "nobody's"}, event("e", "me"),
	} {
		cri.events <- e
	}
	w.want("a", "c", "e")
	w.wantUnnamed(2)
	w.cancel()
	if err := w.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v", err)
	}
}

// A runtime that sends no header before its first event streams only from that event on.
func TestWatchWithoutHeader(t *testing.T) {
	cri := newEventRuntime(true)
	changed, ended := make(chan types.UID, 10), make(chan error, 1)
	go func() {
		ended <- New(Config{Runtime: cri, Agent: "me"}).Watch(t.Context(), func(reported *observed.Pod) { changed <- uidOf(reported) })
	}()
	cri.events <- event("a", "me")
	// The two come from two goroutines, in either order.
	if a, b := <-changed, <-changed; a+b != "a" {
		t.Errorf("changed was called with %q and %q", a, b)
	}
	cri.ends <- io.EOF
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("Watch: %v", err)
	}
}

func TestWatchEnds(t *testing.T) {
	broken := status.Error(codes.Unavailable, "error reading from server: EOF")
	for name, tt := range map[string]struct{ end, want error }{
		"broken":             {broken, broken},
		"closed":             {io.EOF, io.EOF},
		"closed, no error":   {nil, nil},
		"no events any more": {status.Error(codes.Unimplemented, "unknown method"), observed.ErrNoEvents},
	} {
		t.Run(name, func(t *testing.T) {
			cri := newEventRuntime(false)
			w := watch(t, New(Config{Runtime: cri, Agent: "me"}))
			w.wantUnnamed(1)
			cri.ends <- tt.end
			if err := w.end(); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Watch: %v; want %v", err, tt.want)
			}
		})
		t.Run(name+", before it listens", func(t *testing.T) {
			cri := newEventRuntime(true)
			cri.ends <- tt.end
			err := New(Config{Runtime: cri, Agent: "me"}).Watch(t.Context(), func(reported *observed.Pod) { t.Errorf("changed was called with %v", reported) })
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Watch: %v; want %v", err, tt.want)
			}
		})
	}
}

// A Watch that ends while the runtime has more events leaves no goroutine behind.
func TestWatchEndsInAStorm(t *testing.T) {
	s := newSim(t)
	for i := range 20 {
		pod := simPod()
		pod.UID, pod.Name = types.UID(fmt.Sprint(i)), fmt.Sprint(i)
		s.runSandbox(pod, "me")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	err := s.Watch(ctx, func(*observed.Pod) {
		if calls++; calls == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v", err)
	}
}
