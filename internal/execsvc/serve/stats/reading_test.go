package stats

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// Pods without a visible cgroup have the runtime's stats: sandbox stats from 1.7, and container stats from 1.6,
// whose sum is the pod's.
func TestFromRuntime(t *testing.T) {
	none := func(c *Config) { c.PodsCgroup = "" }
	w := newWorld(t, "v2")
	s := w.start(none)
	r, err := s.usage(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	p, c := r.pods[0], r.pods[0].containers[0]
	if *c.CPU.Total != 9e9 || *c.Memory.WorkingSet != 7000 || c.rate != nil || *c.layer.bytesUsed != 40 || c.memory().AvailableBytes != nil {
		t.Errorf("the container of containerd 1.6: %+v", c)
	}
	if *p.CPU.Total != 9e9 || *p.Memory.WorkingSet != 7000 || *p.Memory.RSS != 6000 || p.network != nil {
		t.Errorf("its pod: %+v", p)
	}
	if w.asked["sandboxes"] != 1 {
		t.Errorf("asked %d times for stats of sandboxes; want once", w.asked["sandboxes"])
	}
	w.clock.SetTime(began.Add(2 * time.Second))
	if _, err := s.usage(t.Context(), true); err != nil || w.asked["sandboxes"] != 1 {
		t.Errorf("unsupported stats were requested again: %d, %v", w.asked["sandboxes"], err)
	}

	w = newWorld(t, "v2")
	w.sandboxes, w.sandboxErr = []*runtimeapi.PodSandboxStats{recorded17(), {}, nil}, nil
	if r, err = w.start(none).usage(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	p, c = r.pods[0], r.pods[0].containers[0]
	if *c.rate != (rate{value: 77}) || *c.memory().AvailableBytes != 3000 || *c.swap().SwapAvailableBytes != 900 {
		t.Errorf("the container of containerd 1.7: %+v", c)
	}
	if *p.CPU.Total != 11e9 || *p.rate != (rate{value: 88}) || *p.Processes != 3 || len(p.network) != 1 || p.network[0].Transmit.Errors != 4 {
		t.Errorf("its pod: %+v", p)
	}
	if w.asked["containers"] != 0 {
		t.Error("containers were asked for, too")
	}
	// A runtime that lost a sandbox during the listing fails as a whole.
	w = newWorld(t, "v2")
	w.sandboxErr = status.Error(codes.NotFound, "sandbox is gone")
	if r, err = w.start(none).usage(t.Context(), false); err != nil || r.pods[0].containers[0].Usage == nil {
		t.Errorf("after a sandbox was lost: %v", err)
	}
}

func TestHostNetwork(t *testing.T) {
	w := newWorld(t, "v1")
	w.object.Spec.HostNetwork = true
	r, err := w.start().usage(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.pods[0].network; got != nil {
		t.Errorf("a pod without a network of its own has %+v", got)
	}
}

func TestRates(t *testing.T) {
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	for name, steps := range map[string][]struct {
		at   float64
		used uint64
		want *uint64
	}{
		"the first says nothing": {{0, 500, nil}},
		"soon there is a rate":   {{0, 0, nil}, {0.5, 10, nil}, {2, 20, ptr.To[uint64](10)}},
		"it stands for a while": {
			{0, 0, nil}, {10, 100, ptr.To[uint64](10)}, {11, 9999, ptr.To[uint64](10)}, {20, 300, ptr.To[uint64](20)},
		},
		"a counter that goes back":  {{0, 1000, nil}, {15, 10, nil}, {30, 160, ptr.To[uint64](10)}},
		"what was long ago":         {{0, 0, nil}, {601, 1000, nil}, {611, 1010, ptr.To[uint64](1)}},
		"a clock that is set back":  {{100, 0, nil}, {50, 100, nil}, {60, 200, ptr.To[uint64](10)}},
		"a clock that goes back 1s": {{100, 0, nil}, {99, 100, nil}, {110, 200, ptr.To[uint64](20)}},
	} {
		var r rates
		for i, s := range steps {
			if got := r.of("key", at(s.at), &s.used).nanoCores(); !ptr.Equal(got, s.want) {
				t.Errorf("%s: step %d: %v; want %v", name, i, ptr.Deref(got, 0), ptr.Deref(s.want, 0))
			}
		}
	}
	var r rates
	for i := range 100 {
		r.of(string(rune('a'+i)), at(float64(i)), new(uint64(1)))
	}
	if r.of("last", at(2000), new(uint64(1))); len(r.by) != 1 {
		t.Errorf("%d are remembered; want the last one", len(r.by))
	}
}

func TestPodOf(t *testing.T) {
	for name, want := range map[string]string{
		"pod0f1e-2d": "0f1e-2d", "kubepods-pod0f1e_2d.slice": "0f1e-2d", "kubepods-besteffort-pod0f1e_2d.slice": "0f1e-2d",
		"other-kubepods-burstable-podabc.slice": "abc", "kubepods.slice": "", "kubepods-burstable.slice": "", "burstable": "", "system.slice": "",
	} {
		if got := podOf(name); string(got) != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		"abc": true, "cri-containerd-abc.scope": true, "crio-abc.scope": true, "crio-abc": true, "crio-conmon-abc.scope": false, "abcd": false, "dabc": false,
	} {
		if isContainer(name, "abc") != want {
			t.Errorf("%s: %t; want %t", name, !want, want)
		}
	}
	if isContainer("crio-", "") {
		t.Error("a container without an id has a cgroup")
	}
}

// Volumes, by kind. Volumes that don't belong to the pod are left out. Links aren't followed, and a file with
// two names counts once.
func TestDisk(t *testing.T) {
	w := newWorld(t, "v2")
	volumes := "pods/" + string(uid) + "/volumes/kubernetes.io~"
	block := string(make([]byte, 4096))
	w.write(volumes+"empty-dir/scratch/a/file", block+block)
	w.write(volumes+"empty-dir/memory/file", block)
	w.write(volumes+"host-path/host/file", block)
	w.write(volumes+"secret/keys/file", block)
	w.write("pods/"+string(uid)+"/etc-hosts", block)
	w.write("pods/stranger/volumes/kubernetes.io~empty-dir/x/file", block)
	scratch := w.path(volumes + "empty-dir/scratch")
	if err := os.Link(filepath.Join(scratch, "a/file"), filepath.Join(scratch, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.machine, filepath.Join(scratch, "out")); err != nil {
		t.Fatal(err)
	}
	w.object.Spec.Volumes = []v1.Volume{
		{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "keys", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}},
	}
	s := w.start()
	disk := s.diskUsage(t.Context())
	inodes := map[string]uint64{}
	for _, v := range disk.pods[uid].volumes {
		inodes[v.name] = *v.inodes
	}
	// The directory, a, the file and the link; a directory and a file; and everything in the memory's file
	// system.
	if diff := cmp.Diff(map[string]uint64{"scratch": 4, "keys": 2, "memory": 20}, inodes); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if len(disk.pods) != 1 || len(disk.pods[uid].rest) != 1 || *disk.pods[uid].rest[0].bytesUsed < 4096 {
		t.Errorf("pods: %+v", disk.pods)
	}
	for _, v := range disk.pods[uid].volumes {
		if v.name == "scratch" && (*v.bytesUsed < 8192 || *v.bytesUsed > 8192+3*4096) {
			t.Errorf("scratch: %d bytes", *v.bytesUsed)
		}
	}
	// A figure is used for a minute.
	w.write(volumes+"secret/keys/another", block)
	keys := func(after time.Duration) uint64 {
		t.Helper()
		w.clock.SetTime(began.Add(after))
		for _, v := range s.diskUsage(t.Context()).pods[uid].volumes {
			if v.name == "keys" {
				return *v.inodes
			}
		}
		return 0
	}
	if got := keys(time.Minute); got != 2 {
		t.Errorf("%d files: counted again within a minute", got)
	}
	if got := keys(time.Minute + 2*time.Second); got != 3 {
		t.Errorf("%d files: not counted again after a minute", got)
	}
}

// A request doesn't wait for a slow count: it returns the last figures of that pod, and new ones of the others.
func TestDiskOfALargePod(t *testing.T) {
	w := newWorld(t, "v2")
	w.write("pods/"+string(uid)+"/etc-hosts", "text")
	s := w.start(func(c *Config) { c.Files = &endless{Meter: w.files(diskusage.Config{})} })
	first := s.diskUsage(t.Context()).pods[uid]
	if len(first.rest) != 1 || !first.rest[0].at.Equal(began) {
		t.Fatalf("%+v", first)
	}
	w.clock.SetTime(began.Add(time.Hour))
	begun := time.Now()
	again := s.diskUsage(t.Context()).pods[uid]
	if took := time.Since(begun); took < patience || took > 5*patience {
		t.Errorf("it took %v", took)
	}
	if len(again.rest) != 1 || !again.rest[0].at.Equal(began) {
		t.Errorf("%+v; want the last figures", again)
	}
}

// endless counts once. Later counts never end.
type endless struct {
	*diskusage.Meter
	last map[types.UID]diskusage.Usage
}

func (e *endless) Counts(ctx context.Context, pods []*v1.Pod, age time.Duration) map[types.UID]diskusage.Usage {
	if e.last == nil {
		e.last = e.Meter.Counts(ctx, pods, age)
		return e.last
	}
	<-ctx.Done()
	return e.last
}

func TestUnknownIsLeftOut(t *testing.T) {
	// A kernel without swap accounting and pressure, and a pod without stats.
	r := &reading{at: began, pods: []pod{{name: "a", containers: []container{{name: "c"}}}, {name: "b", used: used{Usage: &kernel.Usage{At: began}}}}}
	for _, p := range summary("n", r, &diskReading{}).Pods {
		if p.CPU != nil || p.Memory != nil || p.Swap != nil || p.Network != nil || p.EphemeralStorage != nil || len(p.Containers) != 0 || p.ProcessStats != nil {
			t.Errorf("%+v", p)
		}
	}
	if all := cadvisorMetrics(r, nil, false); len(all) != 2 {
		t.Errorf("%d families; want container_last_seen and container_scrape_error", len(all))
	}
	if all := resourceMetrics(nil, true); len(all) != 1 {
		t.Errorf("%d families without a reading; want resource_scrape_error", len(all))
	}
}

// TestDiskOfAnEarlierVersion: a pod whose directory is beneath --root-dir is measured there, with the file system of that place.
func TestDiskOfAnEarlierVersion(t *testing.T) {
	w := newWorld(t, "v2")
	w.write("previous/"+string(uid)+"/volumes/kubernetes.io~empty-dir/scratch/file", string(make([]byte, 4096)))
	w.object.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	w.fileSystems[w.path("previous")] = fileSystem{bytes: 7 << 20, free: 1 << 20}
	dirs := kubeletdir.Pods{Current: w.path("pods"), Previous: w.path("previous")}
	meter := diskusage.New(diskusage.Config{PodDirs: dirs, LogsDir: w.path("logs"), Clock: w.clock})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { meter.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	s := w.start(func(c *Config) { c.PodDirs, c.Files = dirs, meter })
	volumes := s.diskUsage(t.Context()).pods[uid].volumes
	if len(volumes) != 1 || *volumes[0].inodes != 2 || volumes[0].bytes != 7<<20 {
		t.Errorf("the volumes are %+v; want scratch with 2 files, on the file system of its place", volumes)
	}
}
