package eviction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/localstorage"
)

func TestMain(m *testing.M) {
	if os.Getenv(hogVariable) != "" {
		hog()
		return
	}
	goleak.VerifyTestMain(m)
}

// harness is a machine with pods whose state a test sets.
type harness struct {
	t        *testing.T
	root     string
	cfg      Config
	registry *prometheus.Registry

	mu   sync.Mutex
	pods []*v1.Pod
	gone map[types.UID]bool
	// ending are the pods that terminate at least as fast by themselves. stays is set if evicted pods can be
	// evicted again.
	ending map[types.UID]bool
	stays  bool
	node   fileSystem
	image  fileSystem
	// container is the file system of writable layers, if the runtime reports one.
	container *fileSystem
	stats     []*runtimeapi.ContainerStats
	sandbox   []*runtimeapi.PodSandboxStats
	disk      map[types.UID]localstorage.Usage
	broken    bool
	// hung are the paths whose file system does not answer until the channel is closed, and waiting counts the calls.
	hung     map[string]chan struct{}
	waiting  int
	did      []string
	asked    int
	reclaims func()

	// log is read only after synctest.Wait.
	log bytes.Buffer
}

// inBubble runs the test in a synctest bubble.
func inBubble(t *testing.T, s Settings, test func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{
			t: t, registry: prometheus.NewRegistry(), root: t.TempDir(), gone: map[types.UID]bool{}, disk: map[types.UID]localstorage.Usage{}, reclaims: func() {},
			node: fileSystem{1, 100 << 30, 50 << 30, 1000, 500}, image: fileSystem{1, 100 << 30, 50 << 30, 1000, 500},
		}
		write(t, h.root, machine())
		h.memory(1000)
		thresholds, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		reclaim := func(what string) func(context.Context) error {
			return func(context.Context) error {
				h.set(func() { h.did = append(h.did, what); h.reclaims() })
				return errors.New("not all")
			}
		}
		h.cfg = Config{
			Thresholds: thresholds, RootDir: "/root", Machine: h.root, Disks: h.disks,
			Pods: h.evictable, Evict: h.evict, Gone: h.isGone, Stats: h, DiskUsage: h.measured,
			RemoveExitedContainers: reclaim("exited containers"), RemoveUnusedImages: reclaim("images"),
			PressureChanged: func() { h.set(func() { h.did = append(h.did, "changed") }) },
			Event:           func(e nodestatus.Event) { h.set(func() { h.did = append(h.did, e.Message) }) },
			Evictions:       NewEvictions(h.registry), Metrics: h.registry, Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
		}
		test(t, h)
	})
}

// run runs a Manager until the test ends.
func (h *harness) run() *Manager { return h.runUntil(h.t.Context()) }

// runUntil runs a Manager until ctx ends.
func (h *harness) runUntil(ctx context.Context) *Manager {
	m := New(h.cfg)
	m.reader.stat = func(path string) (fileSystem, error) {
		h.answer(path)
		h.mu.Lock()
		defer h.mu.Unlock()
		if path == "/containers" {
			return *h.container, nil
		}
		return map[string]fileSystem{"/root": h.node, "/images": h.image}[path], nil
	}
	go m.Run(ctx)
	synctest.Wait()
	return m
}

// answer waits while the path's file system hangs.
func (h *harness) answer(path string) {
	h.mu.Lock()
	hung := h.hung[path]
	if hung != nil {
		h.waiting++
	}
	h.mu.Unlock()
	if hung != nil {
		<-hung
	}
}

func (h *harness) disks(context.Context) (Disks, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.container == nil {
		return Disks{Images: "/images"}, nil
	}
	return Disks{"/images", "/containers"}, nil
}

// memory sets the available mebibytes, of 4096.
func (h *harness) memory(mib int64) {
	write(h.t, h.root, map[string]string{"proc/meminfo": fmt.Sprintf("MemTotal: 4194304 kB\nMemFree: %d kB\nInactive(file): 0 kB\n", mib<<10)})
}

func (h *harness) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *harness) evictable() []*v1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.pods)
}

func (h *harness) evict(uid types.UID, grace int64, why status.Failure) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if why.Reason != "Evicted" || !why.Disrupted || !strings.HasPrefix(why.Message, "The node was low on resource: ") {
		h.t.Errorf("pod %s is evicted with %+v", uid, why)
	}
	if !h.stays {
		h.pods = slices.DeleteFunc(h.pods, func(p *v1.Pod) bool { return p.UID == uid })
	}
	h.did = append(h.did, fmt.Sprintf("evict %s within %d", uid, grace))
	return !h.ending[uid]
}

func (h *harness) isGone(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone[uid]
}

func (h *harness) measured(_ context.Context, pods []*v1.Pod, _ time.Duration) map[types.UID]localstorage.Usage {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	out := map[types.UID]localstorage.Usage{}
	for _, pod := range pods {
		out[pod.UID] = h.disk[pod.UID]
	}
	return out
}

// files returns the usage of a pod whose files were counted.
func files(u diskusage.Usage) localstorage.Usage {
	u.At = time.Unix(1_700_000_000, 0)
	return localstorage.Usage{Usage: u}
}

// figures are the figures of one name.
func figures(name string, bytes, inodes int64) map[string]diskusage.Figure {
	return map[string]diskusage.Figure{name: {Bytes: bytes, Inodes: inodes}}
}

var errBroken = errors.New("the runtime is down")

func (h *harness) ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if h.broken {
		return nil, errBroken
	}
	return h.stats, nil
}

func (h *harness) ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if h.broken {
		return nil, errBroken
	}
	return h.sandbox, nil
}

// uses sets the mebibytes of memory and the number of files of a pod's container "main".
func (h *harness) uses(uid types.UID, mib, files uint64) {
	h.stats = append(h.stats, &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Labels: map[string]string{podmeta.PodUIDLabel: string(uid)},
		},
		Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: mib << 20}},
		WritableLayer: &runtimeapi.FilesystemUsage{InodesUsed: &runtimeapi.UInt64Value{Value: files}},
	})
}

// took returns the actions since the last call.
func (h *harness) took() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.did
	h.did = nil
	return out
}

// logged returns how often the log contains the text.
func (h *harness) logged(text string) int {
	synctest.Wait()
	return strings.Count(h.log.String(), text)
}

// pass advances the time, and waits until all due work is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
