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

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a runtime with images of 10 bytes each, on a disk of 1000.
type harness struct {
	t        *testing.T
	cfg      Config
	registry *prometheus.Registry

	mu         sync.Mutex
	images     []*runtimeapi.Image
	containers []*runtimeapi.Container
	needed     []string
	pulling    []string
	unsettled  bool
	// hidden is set if no image is found by a name, although they are listed.
	hidden bool
	bytes  int64
	free   int64
	// fails are the calls that fail, with an image's ID where they have one.
	fails map[string]error
	// removing is called before an image is removed.
	removing func(id string)
	did      []string

	// log is read only after synctest.Wait.
	log bytes.Buffer
}

func inBubble(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{t: t, registry: prometheus.NewRegistry(), bytes: 1000, free: 500, fails: map[string]error{}, removing: func(string) {}}
		h.cfg = Config{
			Images: h, Containers: h, RequiredImages: h.needs, SourcesReady: h.settled, Pulling: h.pulls, ImageDir: func(context.Context) (string, error) { return "/images", nil },
			HighThresholdPercent: 85, LowThresholdPercent: 80, MinAge: 2 * time.Minute, Metrics: h.registry, Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
			Event: func(e nodestatus.Event) { h.set(func() { h.did = append(h.did, e.Reason+": "+e.Message) }) },
		}
		test(t, h)
	})
}

// run runs a Collector until the test ends.
func (h *harness) run() *Collector {
	c := New(h.cfg)
	c.stat = func(path string) (disk, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return disk{h.bytes, h.free}, h.fails["stat "+path]
	}
	go c.Run(h.t.Context())
	synctest.Wait()
	return c
}

func (h *harness) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *harness) needs(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.needed), h.fails["RequiredImages"]
}

func (h *harness) pulls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.pulling)
}

func (h *harness) settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.unsettled
}

func (h *harness) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.images), h.fails["ListImages"]
}

func (h *harness) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.containers), h.fails["ListContainers"]
}

// ImageStatus finds images by their tags without ":latest", as a runtime does.
func (h *harness) ImageStatus(_ context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.images {
		if !h.hidden && slices.Contains(i.GetRepoTags(), "docker.io/library/"+spec.GetImage()+":latest") {
			return &runtimeapi.ImageStatusResponse{Image: i}, nil
		}
	}
	return &runtimeapi.ImageStatusResponse{}, h.fails["ImageStatus "+spec.GetImage()]
}

func (h *harness) RemoveImage(_ context.Context, spec *runtimeapi.ImageSpec) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removing(spec.GetImage())
	if err := h.fails["RemoveImage "+spec.GetImage()]; err != nil {
		return err
	}
	h.did = append(h.did, "remove "+spec.GetImage())
	h.images = slices.DeleteFunc(h.images, func(i *runtimeapi.Image) bool { return i.GetId() == spec.GetImage() })
	h.free += 10
	return nil
}

// removeUnused calls RemoveUnused.
func (h *harness) removeUnused(c *Collector) {
	h.t.Helper()
	if err := c.RemoveUnused(h.t.Context()); err != nil {
		h.t.Error(err)
	}
}

// add adds images whose name is their ID without "sha256:".
func (h *harness) add(names ...string) {
	h.set(func() {
		for _, name := range names {
			h.images = append(h.images, &runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{"docker.io/library/" + name + ":latest"}, Size: 10})
		}
	})
}

// use makes containers of exactly these images.
func (h *harness) use(names ...string) {
	h.set(func() {
		h.containers = nil
		for _, name := range names {
			h.containers = append(h.containers, &runtimeapi.Container{ImageRef: "sha256:" + name})
		}
	})
}

// full sets the free bytes of the disk's 1000.
func (h *harness) full(free int64) { h.set(func() { h.free = free }) }

// want compares the actions since the last call, without the digests' prefix.
func (h *harness) want(what string, want ...string) {
	h.t.Helper()
	synctest.Wait()
	var got []string
	h.set(func() { got, h.did = h.did, nil })
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "sha256:", "")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// logged returns how often the log contains the text.
func (h *harness) logged(text string) int {
	synctest.Wait()
	return strings.Count(h.log.String(), text)
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
