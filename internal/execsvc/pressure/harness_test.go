package pressure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a machine with pods, whose state a test sets.
type world struct {
	t        *testing.T
	root     string
	cfg      Config
	registry *prometheus.Registry

	mu       sync.Mutex
	pods     []*v1.Pod
	gone     map[types.UID]bool
	ending   map[types.UID]bool
	node     fileSystem
	image    fileSystem
	stats    []*runtimeapi.ContainerStats
	sandbox  []*runtimeapi.PodSandboxStats
	disk     map[types.UID]storage.Usage
	broken   bool
	did      []string
	asked    int
	reclaims func()

	// log is read when nobody writes.
	log bytes.Buffer
}

// inWorld runs the test in a bubble, whose time passes as the test lets it.
func inWorld(t *testing.T, s Settings, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, registry: prometheus.NewRegistry(), root: t.TempDir(), gone: map[types.UID]bool{}, disk: map[types.UID]storage.Usage{}, reclaims: func() {},
			node: fileSystem{1, 100 << 30, 50 << 30, 1000, 500}, image: fileSystem{1, 100 << 30, 50 << 30, 1000, 500},
		}
		write(t, w.root, machine())
		w.memory(1000)
		thresholds, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		reclaim := func(what string) func(context.Context) error {
			return func(context.Context) error {
				w.set(func() { w.did = append(w.did, what); w.reclaims() })
				return errors.New("not all")
			}
		}
		w.cfg = Config{
			Thresholds: thresholds, RootDir: "/root", Machine: w.root, ImageDir: func(context.Context) (string, error) { return "/images", nil },
			Pods: w.evictable, Evict: w.evict, Gone: w.isGone, Stats: w, Disk: w.measured,
			Dir: func(pod *v1.Pod, volume string) string {
				return filepath.Join(w.root, "volumes", string(pod.UID), volume)
			},
			LogsDir: filepath.Join(w.root, "logs"), DeadContainers: reclaim("dead containers"), UnusedImages: reclaim("images"),
			Changed:   func() { w.set(func() { w.did = append(w.did, "changed") }) },
			Event:     func(e nodestatus.Event) { w.set(func() { w.did = append(w.did, e.Message) }) },
			Evictions: NewEvictions(w.registry), Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		}
		test(t, w)
	})
}

// run has a Manager run until the test ends, for which the bubble waits.
func (w *world) run() *Manager {
	m := New(w.cfg)
	m.reader.stat = func(path string) (fileSystem, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return map[string]fileSystem{"/root": w.node, "/images": w.image}[path], nil
	}
	go m.Run(w.t.Context())
	synctest.Wait()
	return m
}

// memory has so many mebibytes available, of 4096.
func (w *world) memory(mib int64) {
	write(w.t, w.root, map[string]string{"proc/meminfo": fmt.Sprintf("MemTotal: 4194304 kB\nMemFree: %d kB\nInactive(file): 0 kB\n", mib<<10)})
}

func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) evictable() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pods)
}

func (w *world) evict(uid types.UID, grace int64, why status.Failure) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why.Reason != "Evicted" || !why.Disrupted || !strings.HasPrefix(why.Message, "The node was low on resource: ") {
		w.t.Errorf("pod %s is evicted with %+v", uid, why)
	}
	w.pods = slices.DeleteFunc(w.pods, func(p *v1.Pod) bool { return p.UID == uid })
	w.did = append(w.did, fmt.Sprintf("evict %s within %d", uid, grace))
	return !w.ending[uid]
}

func (w *world) isGone(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[uid]
}

func (w *world) measured(_ context.Context, pod *v1.Pod) (storage.Usage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.disk[pod.UID], nil
}

var errBroken = errors.New("the runtime is down")

func (w *world) ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.broken {
		return nil, errBroken
	}
	return w.stats, nil
}

func (w *world) ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.broken {
		return nil, errBroken
	}
	return w.sandbox, nil
}

// uses has the container "main" of a pod use so many mebibytes of memory and so many files.
func (w *world) uses(uid types.UID, mib, files uint64) {
	w.stats = append(w.stats, &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Labels: map[string]string{criconfig.PodUIDLabel: string(uid)},
		},
		Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: mib << 20}},
		WritableLayer: &runtimeapi.FilesystemUsage{InodesUsed: &runtimeapi.UInt64Value{Value: files}},
	})
}

// took is what was done since the last time.
func (w *world) took() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.did
	w.did = nil
	return out
}

// told is how often the log has the text.
func (w *world) told(text string) int {
	synctest.Wait()
	return strings.Count(w.log.String(), text)
}

// pass lets time pass, and waits until what is due is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
