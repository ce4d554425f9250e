package image

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simnode"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

func TestMain(m *testing.M) { simtest.Main(m) }

const deadline = 30 * time.Second

// sim is a Puller with a simulated runtime that has the same clock.
type sim struct {
	*Puller
	*simnode.Node
	t      *testing.T
	clock  *clocktest.Timers
	events *events.Recorder
	done   chan types.UID
}

func newSim(t *testing.T, cfg Config) *sim {
	t.Helper()
	s := &sim{t: t, done: make(chan types.UID, 100), clock: clocktest.NewTimers(time.Unix(1_000_000, 0))}
	s.Node = simnode.New(t, simruntime.Config{Clock: s.clock})
	s.events = events.New(events.Config{Clock: s.clock})
	cfg.Images, cfg.Clock, cfg.Events = s.Images, s.clock, s.events
	cfg.Done = func(uid types.UID) { s.done <- uid }
	s.Puller = New(cfg)
	t.Cleanup(s.Close)
	return s
}

// want calls Ensure and compares the result with "present", "pulling", or a reason; one with an error ends in "!".
func (s *sim) want(pod *v1.Pod, container int, want string) *Wait {
	s.t.Helper()
	image, wait, err := s.Ensure(s.t.Context(), pod, &pod.Spec.Containers[container], nil)
	got := "present"
	switch {
	case (image == nil) == (wait == nil):
		s.t.Fatalf("there are image %v and wait %v", image, wait)
	case image != nil:
	case wait.Pulling && wait.Reason == ContainerCreating:
		got = "pulling"
	default:
		got = wait.Reason
	}
	if err != nil {
		got += "!"
	}
	if got != want {
		s.t.Fatalf("%s: %s (%+v, %v); want %s", pod.Spec.Containers[container].Image, got, wait, err, want)
	}
	return wait
}

// wantDone waits until a pull has ended for the pod.
func (s *sim) wantDone(pod *v1.Pod) {
	s.t.Helper()
	if got := receive(s.t, s.done); got != pod.UID {
		s.t.Fatalf("done for %s; want %s", got, pod.UID)
	}
}

// endsIn passes the time that the runtime takes for a pull, once it has begun, and waits until the pull has ended for the pod.
func (s *sim) endsIn(d time.Duration, pod *v1.Pod) {
	s.t.Helper()
	receive(s.t, s.clock.Set)
	s.clock.Step(d)
	s.wantDone(pod)
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(deadline):
		t.Fatalf("nothing in %v", deadline)
		panic("unreachable")
	}
}

// said returns the events as "Container Reason: Message", with their count if it isn't one.
func (s *sim) said() []string {
	list, _, _ := s.events.After(0)
	var out []string
	for _, e := range list {
		text := fmt.Sprintf("%s %s: %s", e.Container, e.Reason, e.Message)
		if e.Count > 1 {
			text += fmt.Sprintf(" (%d)", e.Count)
		}
		out = append(out, text)
	}
	return out
}

// pod returns a pod whose containers a, b, … have these images, "NAME" or "POLICY NAME".
func pod(uid string, images ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "default", Name: uid}}
	for i, image := range images {
		c := v1.Container{Name: string(rune('a' + i)), Image: image, ImagePullPolicy: v1.PullIfNotPresent}
		var policy string
		if n, _ := fmt.Sscanf(image, "%s %s", &policy, &c.Image); n == 2 {
			c.ImagePullPolicy = v1.PullPolicy(policy)
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// keys are the credentials of the test.
type keys struct {
	mu      sync.Mutex
	auths   []imageaccess.Login
	version string
	asked   []string
	// lacking can't be retrieved; awaited: they may still arrive.
	lacking []string
	awaited bool
}

// lack sets the pull secrets that can't be retrieved.
func (k *keys) lack(awaited bool, names ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lacking, k.awaited = names, awaited
}

func (k *keys) Lacking(*v1.Pod) ([]string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lacking, k.awaited
}

func (k *keys) set(version string, auths ...imageaccess.Login) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.auths, k.version = auths, version
}

func (k *keys) Lookup(_ context.Context, _ *v1.Pod, repository string) []imageaccess.Login {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, repository)
	return k.auths
}

func (k *keys) Version(*v1.Pod) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
}

func (*keys) Secrets(*v1.Pod, string) []imageaccess.Login { return nil }
