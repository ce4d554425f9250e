package stats

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/kubeletdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	uid  = types.UID("0f1e2d3c-0001-4000-8000-000000000001")
	made = 1_700_000_100
)

var began = time.Unix(1_700_001_000, 0)

// world is a node with one pod. The machine's files are recorded ones.
type world struct {
	t       testing.TB
	machine string
	clock   *clocktesting.FakePassiveClock

	pods []*observed.Pod
	// object is the desired pod.
	object *v1.Pod
	// listErr is the error of List. sandboxErr simulates a runtime without sandbox stats, such as containerd
	// 1.6.
	listErr, sandboxErr, containerErr error
	sandboxes                         []*runtimeapi.PodSandboxStats
	containers                        []*runtimeapi.ContainerStats
	asked                             map[string]int
	fileSystems                       map[string]fileSystem
	// layers is the directory of writable layers that the runtime reports; empty: none, as containerd.
	layers string
}

// newWorld returns the machine of testdata/<version>.txt, whose runtime only has container stats.
func newWorld(t testing.TB, version string) *world {
	w := &world{
		t: t, machine: t.TempDir(), clock: clocktesting.NewFakePassiveClock(began), asked: map[string]int{},
		sandboxErr: status.Error(codes.Unimplemented, "unknown method ListPodSandboxStats"),
	}
	data, err := os.ReadFile("testdata/" + version + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.SplitSeq(strings.TrimPrefix(string(data), "-- "), "\n-- ") {
		name, content, _ := strings.Cut(file, " --\n")
		w.write(name, strings.TrimSuffix(content, "\n")+"\n")
	}
	w.object = &v1.Pod{}
	w.object.UID, w.object.Namespace, w.object.Name = uid, "shop", "web"
	w.object.Spec.Containers = []v1.Container{{Name: "app"}}
	w.pods = []*observed.Pod{{
		UID: uid, Namespace: "shop", Name: "web",
		Sandboxes: []observed.Sandbox{{ID: "sand1", Ready: true, Created: time.Unix(made, 0)}},
		Containers: []observed.Container{
			{ID: "app1", Name: "app", State: observed.Running, Image: "sha256:abc", Created: time.Unix(made+5, 0), SandboxID: "sand1", Attempt: 1},
			{ID: "app0", Name: "app", State: observed.Exited, Image: "example.com/app:1", Created: time.Unix(made+1, 0), SandboxID: "sand1"},
		},
	}}
	w.containers = []*runtimeapi.ContainerStats{recorded16()}
	w.fileSystems = map[string]fileSystem{
		"/root":   {device: "254:0", bytes: 1000, free: 600, available: 500, files: 100, filesFree: 80},
		"/images": {device: "254:1", bytes: 2000, free: 900, available: 800, files: 200, filesFree: 150},
		"/layers": {device: "254:2", bytes: 3000, free: 70, available: 60, files: 300, filesFree: 250},
	}
	return w
}

// recorded16 returns a container's stats from containerd 1.6.
func recorded16() *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: "app1", Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 1}},
		Cpu:        &runtimeapi.CpuUsage{Timestamp: began.UnixNano(), UsageCoreNanoSeconds: n(9_000_000_000)},
		Memory:     &runtimeapi.MemoryUsage{Timestamp: began.UnixNano(), WorkingSetBytes: n(7000), UsageBytes: n(8000), RssBytes: n(6000)},
		WritableLayer: &runtimeapi.FilesystemUsage{
			Timestamp: began.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}, UsedBytes: n(40), InodesUsed: n(4),
		},
	}
}

// recorded17 returns the stats of the sandbox with that container from containerd 1.7.
func recorded17() *runtimeapi.PodSandboxStats {
	container := recorded16()
	container.Cpu.UsageNanoCores, container.Memory.AvailableBytes = n(77), n(3000)
	container.Swap = &runtimeapi.SwapUsage{Timestamp: began.UnixNano(), SwapUsageBytes: n(100), SwapAvailableBytes: n(900)}
	eth0 := &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: n(1), RxErrors: n(2), TxBytes: n(3), TxErrors: n(4)}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{Id: "sand1", Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: string(uid)}},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Cpu:     &runtimeapi.CpuUsage{Timestamp: began.UnixNano(), UsageCoreNanoSeconds: n(11_000_000_000), UsageNanoCores: n(88)},
			Memory:  &runtimeapi.MemoryUsage{Timestamp: began.UnixNano(), WorkingSetBytes: n(7500), UsageBytes: n(8500)},
			Network: &runtimeapi.NetworkUsage{Timestamp: began.UnixNano(), DefaultInterface: eth0, Interfaces: []*runtimeapi.NetworkInterfaceUsage{eth0}},
			Process: &runtimeapi.ProcessUsage{Timestamp: began.UnixNano(), ProcessCount: n(3)}, Containers: []*runtimeapi.ContainerStats{container},
		},
	}
}

func n(v uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: v} }

func (w *world) path(name string) string { return filepath.Join(w.machine, name) }

func (w *world) write(name, content string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start returns Stats of this world.
func (w *world) start(change ...func(*Config)) *Stats {
	pods := "/kubepods"
	if _, err := os.Stat(w.path("sys/fs/cgroup/kubepods.slice")); err == nil {
		pods += ".slice"
	}
	cfg := Config{
		Node: "node-1", Pods: w, Board: w, Runtime: w, Images: w, PodsCgroup: pods, Machine: w.machine,
		RootDir: "/root", PodDirs: kubeletdir.Pods{Current: w.path("pods")}, LogsDir: w.path("logs"), Clock: w.clock, Files: w.files(diskusage.Config{}),
	}
	for _, c := range change {
		c(&cfg)
	}
	s := New(cfg)
	s.statfs = func(path string) (fileSystem, error) {
		if on, ok := w.fileSystems[path]; ok {
			return on, nil
		}
		if strings.HasPrefix(path, w.machine) {
			return w.fileSystems["/root"], nil
		}
		return fileSystem{}, os.ErrNotExist
	}
	w.t.Cleanup(s.Close)
	return s
}

// files returns a Meter of this world, which runs until the test ends.
func (w *world) files(cfg diskusage.Config) *diskusage.Meter {
	cfg.PodDirs, cfg.LogsDir, cfg.Clock = kubeletdir.Pods{Current: w.path("pods")}, w.path("logs"), w.clock
	m := diskusage.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	w.t.Cleanup(func() { cancel(); running.Wait() })
	return m
}

func (w *world) List(context.Context) ([]*observed.Pod, error) { return w.pods, w.listErr }

func (w *world) Get(of types.UID) (podview.Pod, bool) {
	if w.object == nil || of != w.object.UID {
		return podview.Pod{}, false
	}
	return podview.Pod{UID: of, Object: w.object, Status: &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "app", Image: "example.com/app:1"}}}}, true
}

func (w *world) ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	w.asked["sandboxes"]++
	return w.sandboxes, w.sandboxErr
}

func (w *world) ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	w.asked["containers"]++
	return w.containers, w.containerErr
}

func (w *world) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	out := &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		Timestamp: began.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}, UsedBytes: n(700), InodesUsed: n(30),
	}}}
	if w.layers != "" {
		out.ContainerFilesystems = []*runtimeapi.FilesystemUsage{{
			Timestamp: began.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: w.layers}, UsedBytes: n(90), InodesUsed: n(4),
		}}
	}
	return out, nil
}
