package eviction

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/machine/memcg"
	"github.com/podstream/podstream/internal/roottest"
)

// hogVariable makes the test binary a process that takes hogMemory when it reads a line, and keeps it until its input
// ends.
const (
	hogVariable = "PODSTREAM_TEST_HOG"
	hogMemory   = 100 << 20
)

func hog() {
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	_, err := unix.Mmap(-1, 0, hogMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	fmt.Fprintln(os.Stderr, "memory:", err)
	_, _ = in.ReadString('\n')
}

// TestRealKernelReports: a pod that fills the cgroup of all pods is evicted before the next regular observation, with
// cgroup v1. With version 2 the kernel has no such reports.
func TestRealKernelReports(t *testing.T) {
	roottest.Need(t, "making a cgroup")
	if cgroups.IsCgroup2UnifiedMode() {
		return
	}
	name := "/podstream-test-" + rand.Text()
	dir := filepath.Join("/", cgroupV1, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(dir); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	set := func(file, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	set("memory.limit_in_bytes", "128M")

	thresholds, err := Parse(Settings{Hard: map[string]string{"memory.available": "64Mi"}})
	if err != nil {
		t.Fatal(err)
	}
	notifier := memcg.New()
	defer notifier.Close()
	evicted := make(chan types.UID, 1)
	h := &harness{t: t}
	h.uses("hog", 100, 0)
	m := New(Config{
		Thresholds: thresholds, RootDir: t.TempDir(), PodsCgroup: name, Notifier: notifier, Stats: h,
		Pods:  func() []*v1.Pod { return []*v1.Pod{podOf("hog", 0, "0")} },
		Evict: func(uid types.UID, _ int64, _ status.Failure) bool { evicted <- uid; return true },
	})
	m.ObserveOnce(t.Context())
	begun := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx)
	}()
	defer func() { cancel(); <-ended }()

	hog := exec.CommandContext(ctx, "/proc/self/exe")
	hog.Env = append(os.Environ(), hogVariable+"=1")
	in, err := hog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = hog.Wait() }()
	set("cgroup.procs", strconv.Itoa(hog.Process.Pid))
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case uid := <-evicted:
		if took := time.Since(begun); uid != "hog" || took >= period {
			t.Errorf("%s is evicted after %v; the next regular observation is after %v", uid, took, period)
		}
	case <-time.After(time.Minute):
		t.Fatal("no pod is evicted")
	}
}

// TestRealDisks: a full disk of writable layers is found by its device, and not taken for that of images or of the
// node.
func TestRealDisks(t *testing.T) {
	images, containers := disktest.Small(t), disktest.Small(t)
	r := reader{dir: t.TempDir(), waits: newWaits(), stat: statfs, disks: func(context.Context) (Disks, error) { return Disks{images, containers}, nil }}
	full := func() (full []Signal) {
		t.Helper()
		seen, disks, err := r.observe(t.Context())
		if err != nil || !disks.ownContainerFs() || disks.image == disks.node {
			t.Fatalf("%+v, %v", disks, err)
		}
		for _, signal := range []Signal{NodeFsAvailable, ImageFsAvailable, ContainerFsAvailable} {
			if o, known := seen[signal]; !known || o.available.IsZero() {
				full = append(full, signal)
			}
		}
		return full
	}
	if got := full(); got != nil {
		t.Errorf("empty disks: %v are full", got)
	}
	free := disktest.FillUp(t, containers)
	if got := full(); !slices.Equal(got, []Signal{ContainerFsAvailable}) {
		t.Errorf("a full disk of writable layers: %v are full", got)
	}
	free()
	disktest.FillUp(t, images)
	if got := full(); !slices.Equal(got, []Signal{ImageFsAvailable}) {
		t.Errorf("a full disk of images: %v are full", got)
	}
}
