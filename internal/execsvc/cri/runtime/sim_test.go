package runtime

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simnode"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

func TestMain(m *testing.M) { simtest.Main(m) }

// sim is a Runtime that drives a simulated container runtime with the same clock.
type sim struct {
	*Runtime
	*simnode.Node
	t      *testing.T
	images *simImages
	hooks  *simHooks
	clock  *clocktest.Timers
	// root has the logs: in pods, and the links to them in containers.
	root string
	// change, if set, changes the configuration of the next Runtime.
	change func(*Config)
}

func newSim(t *testing.T) *sim {
	t.Helper()
	s := &sim{t: t, root: t.TempDir(), hooks: &simHooks{}, clock: clocktest.NewTimers(time.Unix(1_000_000, 0))}
	s.Node = simnode.New(t, simruntime.Config{Clock: s.clock})
	s.images = &simImages{service: s.Images, waits: map[string]imageAnswer{}}
	s.Runtime = s.restarted()
	return s
}

// restarted returns a Runtime as podexecd has it after a restart: without caches.
func (s *sim) restarted() *Runtime {
	cfg := Config{
		Runtime: s.CRI, Images: s.images, Hooks: s.hooks, Agent: "me", LogsDir: filepath.Join(s.root, "pods"), Clock: s.clock,
		Events: events.New(events.Config{Clock: s.clock}),
	}
	if s.change != nil {
		s.change(&cfg)
	}
	return New(cfg)
}

// with creates the Runtime again with a changed configuration.
func (s *sim) with(change func(*Config)) {
	s.change = change
	s.Runtime = s.restarted()
}

// events are what was recorded, as "Reason container: message", less what is said of every container.
func (s *sim) events() []string {
	all, _, _ := s.cfg.Events.After(0)
	var out []string
	for _, e := range all {
		if e.Reason != events.CreatedContainer && e.Reason != events.StartedContainer {
			out = append(out, e.Reason+" "+e.Container+": "+e.Message)
		}
	}
	return out
}

// setFault sets the fault of all following calls. It is called for one call at a time.
func (s *sim) setFault(fault func(method string) error) {
	if fault == nil {
		s.SetFault(nil)
		return
	}
	var mu sync.Mutex
	s.SetFault(func(_ context.Context, method string) error {
		mu.Lock()
		defer mu.Unlock()
		return fault(method)
	})
}

// sample is a container of an image that is present, with the arguments of the simulated program.
func sample(name string, args ...string) v1.Container { return simnode.Container(name, args...) }

func simPod(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "uid-1", Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{podmeta.SourceAnnotation: "file"},
		},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr.To[int64](30), Containers: containers,
		},
	}
}

// status reads the pod.
func (s *sim) status(pod *v1.Pod) *observed.Pod {
	s.t.Helper()
	has, err := s.Status(s.t.Context(), pod.UID)
	if err != nil {
		s.t.Fatal(err)
	}
	return has
}

// input is what the next round for the pod works on.
func (s *sim) input(pod *v1.Pod) SyncInput {
	s.t.Helper()
	return SyncInput{Pod: pod, Has: s.status(pod), Setup: plainSetup{}}
}

// sync does one round for the pod.
func (s *sim) sync(pod *v1.Pod) SyncResult {
	s.t.Helper()
	return s.SyncPod(s.t.Context(), s.input(pod))
}

// mustSync does one round that goes well.
func (s *sim) mustSync(pod *v1.Pod) {
	s.t.Helper()
	if res := s.sync(pod); res.Err != nil || len(res.Waiting) > 0 || res.RetryAfter != 0 {
		s.t.Fatalf("SyncPod: %+v", res)
	}
}

// wantWaiting does one round, and checks what one container waits for and when it is retried. It returns the message.
func (s *sim) wantWaiting(pod *v1.Pod, container, reason string, retry time.Duration, failed bool) string {
	s.t.Helper()
	res := s.sync(pod)
	if got := res.Waiting[container]; got.Reason != reason || res.RetryAfter != retry || (res.Err != nil) != failed {
		s.t.Fatalf("%s waits for %q (%s), retry after %v, error %v; want %s, %v, error %v",
			container, got.Reason, got.Message, res.RetryAfter, res.Err, reason, retry, failed)
	}
	return res.Waiting[container].Message
}

// wantContainer checks the newest container of a name.
func (s *sim) wantContainer(pod *v1.Pod, name string, state observed.State, attempt uint32) *observed.Container {
	s.t.Helper()
	c := s.status(pod).Latest(name)
	if c == nil || c.State != state || c.Attempt != attempt {
		s.t.Fatalf("container %s is %+v; want state %v, attempt %d", name, c, state, attempt)
	}
	return c
}

// exit ends the newest container of a name by itself.
func (s *sim) exit(pod *v1.Pod, name string, code int32) {
	s.t.Helper()
	if err := s.Server.ExitContainer(s.statusAgain(pod).Latest(name).ID, code); err != nil {
		s.t.Fatal(err)
	}
}

// callsDuring are the RPCs made by f, sorted, but for those that only read.
func (s *sim) callsDuring(f func()) []string {
	before := s.Server.Calls()
	f()
	var out []string
	after := s.Server.Calls()
	for _, method := range slices.Sorted(maps.Keys(after)) {
		if strings.HasPrefix(method, "List") || strings.HasSuffix(method, "Status") {
			continue
		}
		for range after[method] - before[method] {
			out = append(out, method)
		}
	}
	return out
}

// files are the paths under root that aren't directories, sorted.
func (s *sim) files() []string {
	s.t.Helper()
	var out []string
	err := filepath.WalkDir(s.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimPrefix(path, s.root+"/"))
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// wantListed checks the UIDs that List shows.
func (s *sim) wantListed(want ...types.UID) {
	s.t.Helper()
	pods, err := s.List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var got []types.UID
	for _, p := range pods {
		got = append(got, p.UID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.t.Fatalf("List has %v; want %v", got, want)
	}
}
