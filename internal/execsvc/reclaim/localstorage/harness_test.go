package localstorage

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podOf returns a pod without limits of one container, "main".
func podOf(uid types.UID) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: "web"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
	}
}

// withDir adds an emptyDir; an empty limit is none.
func withDir(pod *v1.Pod, name, limit string) *v1.Pod {
	source := &v1.EmptyDirVolumeSource{}
	if limit != "" {
		q := resource.MustParse(limit)
		source.SizeLimit = &q
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: source}})
	return pod
}

// limited sets the limit of the pod's container.
func limited(pod *v1.Pod, limit string) *v1.Pod {
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(limit)}
	return pod
}

// place is a disk with pods' directories, and a runtime.
type place struct {
	t    *testing.T
	root string

	mu    sync.Mutex
	stats []*runtimeapi.ContainerStats
	// hold, if set, is called first in each call to the runtime.
	hold func(context.Context) error
	// looked counts the calls to the meter and the runtime.
	looked int
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{t: t, root: t.TempDir()}
}

func (p *place) dir(pod *v1.Pod, volume string) string {
	return filepath.Join(p.root, "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", volume)
}

// askedFiles is a Meter that counts its calls.
type askedFiles struct {
	*place
	*diskusage.Meter
}

func (c askedFiles) Counts(ctx context.Context, pods []*v1.Pod, age time.Duration) map[types.UID]diskusage.Usage {
	c.mu.Lock()
	c.looked++
	c.mu.Unlock()
	return c.Meter.Counts(ctx, pods, age)
}

func (p *place) ListContainerStats(ctx context.Context, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	p.mu.Lock()
	p.looked++
	hold, stats := p.hold, p.stats
	p.mu.Unlock()
	if hold != nil {
		if err := hold(ctx); err != nil {
			return nil, err
		}
	}
	var out []*runtimeapi.ContainerStats
	for _, s := range stats {
		if s.Attributes.Labels[podmeta.PodUIDLabel] == f.GetLabelSelector()[podmeta.PodUIDLabel] {
			out = append(out, s)
		}
	}
	return out, nil
}

func (p *place) setHold(hold func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = hold
}

// takeLooked returns the calls since the last time.
func (p *place) takeLooked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.looked
	p.looked = 0
	return n
}

// layer sets the size of a writable layer in the runtime's stats.
func (p *place) layer(uid types.UID, container string, attempt uint32, bytes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats = append(p.stats, &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Metadata: &runtimeapi.ContainerMetadata{Name: container, Attempt: attempt},
			Labels:   map[string]string{podmeta.PodUIDLabel: string(uid)},
		},
		WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: bytes}},
	})
}

func (p *place) logsDir() string { return filepath.Join(p.root, "logs") }

// config returns the Config of a Manager of the place.
func (p *place) config() Config {
	return Config{Meter: p.files(diskusage.Config{}), Stats: p, Pods: func() []*v1.Pod { return nil }}
}

// files returns a Meter of the place, which runs until the test ends.
func (p *place) files(cfg diskusage.Config) Meter {
	cfg.PodDirs.Current, cfg.LogsDir = filepath.Join(p.root, "pods"), p.logsDir()
	meter := diskusage.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { meter.Run(ctx) })
	p.t.Cleanup(func() { cancel(); running.Wait() })
	return askedFiles{p, meter}
}

// write writes a file of that size and its directories, and returns its path.
func write(t *testing.T, size int, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// taken returns the allocated sizes of all files at and below the paths, by name.
func taken(t *testing.T, paths ...string) int64 {
	t.Helper()
	var sum int64
	for _, path := range paths {
		err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return sum
}
