package imagegc

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a runtime with images of 10 bytes each, on a disk of 1000.
type world struct {
	t        *testing.T
	cfg      Config
	registry *prometheus.Registry

	mu         sync.Mutex
	images     []*runtimeapi.Image
	containers []*runtimeapi.Container
	needed     []string
	unsettled  bool
	free       int64
	// fails are the calls that fail, with an image's ID where they have one.
	fails map[string]error
	// removing is called before an image is removed.
	removing func(id string)
	did      []string

	// log is read when nobody writes.
	log bytes.Buffer
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, registry: prometheus.NewRegistry(), free: 500, fails: map[string]error{}, removing: func(string) {}}
		w.cfg = Config{
			Images: w, Containers: w, Needed: w.needs, Settled: w.settled, Dir: func(context.Context) (string, error) { return "/images", nil },
			High: 85, Low: 80, MinAge: 2 * time.Minute, Metrics: w.registry, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
			Event: func(e nodestatus.Event) { w.set(func() { w.did = append(w.did, e.Reason+": "+e.Message) }) },
		}
		test(t, w)
	})
}

// run has a Collector run until the test ends, for which the bubble waits.
func (w *world) run() *Collector {
	c := New(w.cfg)
	c.stat = func(path string) (disk, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return disk{1000, w.free}, w.fails["stat "+path]
	}
	go c.Run(w.t.Context())
	synctest.Wait()
	return c
}

func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) needs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.needed)
}

func (w *world) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.unsettled
}

func (w *world) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.images), w.fails["ListImages"]
}

func (w *world) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.containers), w.fails["ListContainers"]
}

// ImageStatus finds images by their tags without ":latest", as a runtime would.
func (w *world) ImageStatus(_ context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.images {
		if slices.Contains(i.GetRepoTags(), "docker.io/library/"+spec.GetImage()+":latest") {
			return &runtimeapi.ImageStatusResponse{Image: i}, nil
		}
	}
	return &runtimeapi.ImageStatusResponse{}, w.fails["ImageStatus "+spec.GetImage()]
}

func (w *world) RemoveImage(_ context.Context, spec *runtimeapi.ImageSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removing(spec.GetImage())
	if err := w.fails["RemoveImage "+spec.GetImage()]; err != nil {
		return err
	}
	w.did = append(w.did, "remove "+spec.GetImage())
	w.images = slices.DeleteFunc(w.images, func(i *runtimeapi.Image) bool { return i.GetId() == spec.GetImage() })
	w.free += 10
	return nil
}

// removeUnused has everything removed at once that nobody uses.
func (w *world) removeUnused(c *Collector) {
	w.t.Helper()
	if err := c.RemoveUnused(w.t.Context()); err != nil {
		w.t.Error(err)
	}
}

// add brings images whose name is their ID without "sha256:".
func (w *world) add(names ...string) {
	w.set(func() {
		for _, name := range names {
			w.images = append(w.images, &runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{"docker.io/library/" + name + ":latest"}, Size: 10})
		}
	})
}

// use has exactly these images used by containers.
func (w *world) use(names ...string) {
	w.set(func() {
		w.containers = nil
		for _, name := range names {
			w.containers = append(w.containers, &runtimeapi.Container{ImageRef: "sha256:" + name})
		}
	})
}

// full has so many bytes of the disk's 1000 free.
func (w *world) full(free int64) { w.set(func() { w.free = free }) }

// want checks what was done since the last time, but for the digests' kind.
func (w *world) want(what string, want ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []string
	w.set(func() { got, w.did = w.did, nil })
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "sha256:", "")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// told is how often the log has the text.
func (w *world) told(text string) int {
	synctest.Wait()
	return strings.Count(w.log.String(), text)
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
