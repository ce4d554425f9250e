package eviction

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
)

// machine returns the files of a machine that meets no threshold.
func machine() map[string]string {
	return map[string]string{
		"proc/meminfo":                 "MemTotal: 4096 kB\nMemFree: 1024 kB\nInactive: 99 kB\nInactive(file): 512 kB\n",
		"proc/loadavg":                 "1.36 3.49 4.53 2/3518 3715089\n",
		"proc/sys/kernel/pid_max":      "32768\n",
		"proc/sys/kernel/threads-max":  "30000\n",
		"sys/fs/cgroup/memory/unused":  "",
		"sys/fs/cgroup/memory/k/other": "",
	}
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// disks are file systems by path.
func disks(all map[string]fileSystem) func(string) (fileSystem, error) {
	return func(path string) (fileSystem, error) {
		fs, there := all[path]
		if !there {
			return fs, os.ErrNotExist
		}
		return fs, nil
	}
}

func newWaits() *nodefs.Waits { return nodefs.New(nodefs.Config{Timeout: statTimeout}) }

func texts(seen observations) map[string]string {
	out := map[string]string{}
	for signal, o := range seen {
		out[string(signal)] = o.available.String() + " of " + o.capacity.String()
	}
	return out
}

func TestObserve(t *testing.T) {
	v1 := map[string]string{
		"sys/fs/cgroup/memory/k/memory.limit_in_bytes": "2097152\n", "sys/fs/cgroup/memory/k/memory.usage_in_bytes": "1048576\n",
		"sys/fs/cgroup/memory/k/memory.stat": "inactive_file 1\ntotal_inactive_file 524288\n",
	}
	v2 := map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "", "sys/fs/cgroup/k/memory.max": "2097152\n", "sys/fs/cgroup/k/memory.current": "1048576\n",
		"sys/fs/cgroup/k/memory.stat": "anon 5\ninactive_file 524288\n",
	}
	unbound1, unbound2 := maps.Clone(v1), maps.Clone(v2)
	unbound1["sys/fs/cgroup/memory/k/memory.limit_in_bytes"], unbound2["sys/fs/cgroup/k/memory.max"] = "9223372036854771712\n", "max\n"
	image := fileSystem{device: 2, bytes: 8 << 30, free: 2 << 30}
	one := layout{1, 1, 1}
	for name, c := range map[string]struct {
		cgroup  map[string]string
		bound   string
		dirs    Disks
		disks   layout
		imagefs []string
	}{
		"cgroup v1":          {v1, "1536Ki of 2Mi", Disks{}, one, []string{"1Gi of 4Gi", "50 of 100"}},
		"cgroup v2":          {v2, "1536Ki of 2Mi", Disks{}, one, []string{"1Gi of 4Gi", "50 of 100"}},
		"unbound, v1":        {unbound1, "", Disks{}, one, []string{"1Gi of 4Gi", "50 of 100"}},
		"unbound, v2":        {unbound2, "", Disks{}, one, []string{"1Gi of 4Gi", "50 of 100"}},
		"images elsewhere":   {v2, "1536Ki of 2Mi", Disks{Images: "/images"}, layout{1, 2, 2}, []string{"2Gi of 8Gi"}},
		"images on the same": {v2, "1536Ki of 2Mi", Disks{Images: "/root/images"}, one, []string{"1Gi of 4Gi", "50 of 100"}},
		"images apart":       {v2, "1536Ki of 2Mi", Disks{"/images", "/root/layers"}, layout{1, 2, 1}, []string{"2Gi of 8Gi"}},
		"all together":       {v2, "1536Ki of 2Mi", Disks{"/root/images", "/root/layers"}, one, []string{"1Gi of 4Gi", "50 of 100"}},
		"both elsewhere":     {v2, "1536Ki of 2Mi", Disks{"/images", "/images"}, layout{1, 2, 2}, []string{"2Gi of 8Gi"}},
		"all apart":          {v2, "1536Ki of 2Mi", Disks{"/images", "/layers"}, layout{1, 2, 3}, []string{"2Gi of 8Gi", "", "1Gi of 2Gi", "7 of 9"}},
		"layers apart":       {v2, "1536Ki of 2Mi", Disks{"/root/images", "/layers"}, layout{1, 1, 3}, []string{"1Gi of 4Gi", "50 of 100", "1Gi of 2Gi", "7 of 9"}},
	} {
		root := t.TempDir()
		write(t, root, machine())
		write(t, root, c.cgroup)
		asked := 0
		node := fileSystem{1, 4 << 30, 1 << 30, 100, 50}
		r := reader{
			root: root, dir: "/root", podsCgroup: "/k", waits: newWaits(), stat: disks(map[string]fileSystem{
				"/root": node, "/root/images": node, "/root/layers": node, "/images": image, "/layers": {3, 2 << 30, 1 << 30, 9, 7},
			}),
			disks: func(context.Context) (Disks, error) { asked++; return c.dirs, nil },
		}
		want := map[string]string{
			"memory.available": "1536Ki of 4Mi", "nodefs.available": "1Gi of 4Gi", "nodefs.inodesFree": "50 of 100", "pid.available": "26482 of 30k",
		}
		if c.bound != "" {
			want["allocatableMemory.available"] = c.bound
		}
		for i, signal := range []string{"imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree"} {
			if i < len(c.imagefs) && c.imagefs[i] != "" {
				want[signal] = c.imagefs[i]
			}
		}
		for range 3 {
			seen, disks, err := r.observe(t.Context())
			if diff := cmp.Diff(want, texts(seen)); diff != "" || err != nil || disks != c.disks {
				t.Errorf("%s: disks %v, %v (-want +got):\n%s", name, disks, err, diff)
			}
		}
		if c.dirs.Images != "" && asked != 1 {
			t.Errorf("%s: the runtime was asked %d times", name, asked)
		}
	}
}

// A signal that can't be read doesn't affect the others.
func TestObserveInPart(t *testing.T) {
	all := []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
	for name, c := range map[string]struct {
		breaks func(root string, r *reader)
		lost   string
	}{
		"nothing":    {func(string, *reader) {}, ""},
		"no meminfo": {func(root string, _ *reader) { _ = os.Remove(root + "/proc/meminfo") }, "memory.available"},
		"odd meminfo": {
			func(root string, _ *reader) { _ = os.WriteFile(root+"/proc/meminfo", []byte("MemFree: 1 kB\n"), 0o600) }, "memory.available",
		},
		"no loadavg": {func(root string, _ *reader) { _ = os.Remove(root + "/proc/loadavg") }, "pid.available"},
		"odd loadavg": {
			func(root string, _ *reader) { _ = os.WriteFile(root+"/proc/loadavg", []byte("1 2 3 many\n"), 0o600) }, "pid.available",
		},
		"no root directory": {func(_ string, r *reader) { r.dir = "/gone" }, "nodefs.available nodefs.inodesFree imagefs.available imagefs.inodesFree"},
		"a silent runtime": {
			func(_ string, r *reader) {
				r.disks = func(context.Context) (Disks, error) { return Disks{}, errors.New("silent") }
			},
			"nodefs.available nodefs.inodesFree imagefs.available imagefs.inodesFree",
		},
		"images nowhere": {
			func(_ string, r *reader) {
				r.disks = func(context.Context) (Disks, error) { return Disks{Images: "/gone"}, nil }
			},
			"nodefs.available nodefs.inodesFree imagefs.available imagefs.inodesFree",
		},
		"layers nowhere": {
			func(_ string, r *reader) {
				r.disks = func(context.Context) (Disks, error) { return Disks{"/root", "/gone"}, nil }
			},
			"nodefs.available nodefs.inodesFree imagefs.available imagefs.inodesFree",
		},
	} {
		root := t.TempDir()
		write(t, root, machine())
		r := reader{root: root, dir: "/root", waits: newWaits(), stat: disks(map[string]fileSystem{"/root": {1, 4 << 30, 1 << 30, 100, 50}})}
		c.breaks(root, &r)
		seen, _, err := r.observe(t.Context())
		for _, signal := range all {
			if _, there := seen[Signal(signal)]; there == strings.Contains(c.lost, signal) {
				t.Errorf("%s: %s is present: %v", name, signal, there)
			}
		}
		if (err != nil) != (c.lost != "") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A missing value is unknown, not zero: no pod is evicted for it.
func TestObserveOddFiles(t *testing.T) {
	const info = "MemTotal: 4096 kB\nMemFree: 1024 kB\nInactive(file): 512 kB\n"
	const cgroup = "sys/fs/cgroup/k/"
	whole := map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "", cgroup + "memory.max": "2097152\n", cgroup + "memory.current": "1048576\n",
		cgroup + "memory.stat": "anon 5\ninactive_file 524288\n",
	}
	const memory, allocatable, processes = "memory.available", "allocatableMemory.available", "pid.available"
	for _, c := range []struct{ file, content, lost string }{
		{"proc/meminfo", strings.Replace(info, "MemFree", "MemFreed", 1), memory},
		{"proc/meminfo", strings.Replace(info, "Inactive(file)", "Inactive", 1), memory},
		{"proc/meminfo", strings.Replace(info, "1024", "-1024", 1), memory},
		{"proc/meminfo", strings.Replace(info, "1024 kB", "", 1), memory},
		{"proc/meminfo", info[:len("MemTotal: 4096 kB\n")], memory},
		{cgroup + "memory.stat", "anon 5\n", allocatable},
		{cgroup + "memory.max", "?\n", allocatable},
		{"proc/sys/kernel/pid_max", "0\n", processes},
	} {
		root := t.TempDir()
		write(t, root, machine())
		write(t, root, whole)
		r := reader{root: root, dir: "/root", podsCgroup: "/k", waits: newWaits(), stat: disks(map[string]fileSystem{"/root": {1, 4 << 30, 1 << 30, 100, 50}})}
		if seen, _, err := r.observe(t.Context()); err != nil || len(seen) != 7 {
			t.Fatalf("without a failure: %v, %v", texts(seen), err)
		}
		write(t, root, map[string]string{c.file: c.content})
		seen, _, err := r.observe(t.Context())
		if _, there := seen[Signal(c.lost)]; there || err == nil || len(seen) != 6 {
			t.Errorf("%s is %q: %v, %v", c.file, c.content, texts(seen), err)
		}
	}
}

// A file system that reports no size, as some do, isn't full.
func TestObserveWithoutSize(t *testing.T) {
	root := t.TempDir()
	write(t, root, machine())
	r := reader{root: root, dir: "/root", waits: newWaits(), stat: disks(map[string]fileSystem{"/root": {device: 1}})}
	seen, _, err := r.observe(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, signal := range []Signal{NodeFsAvailable, ImageFsAvailable, NodeFsInodesFree, ImageFsInodesFree} {
		if o, there := seen[signal]; there {
			t.Errorf("%s is %v", signal, o)
		}
	}
}

// The directory of images is requested again when it is gone.
func TestObserveMovedImages(t *testing.T) {
	root := t.TempDir()
	write(t, root, machine())
	at := "/old"
	there := map[string]fileSystem{"/root": {1, 4 << 30, 1 << 30, 100, 50}, "/old": {2, 4 << 30, 2 << 30, 100, 50}}
	r := reader{root: root, dir: "/root", waits: newWaits(), stat: disks(there), disks: func(context.Context) (Disks, error) { return Disks{Images: at}, nil }}
	for _, want := range []string{"2Gi of 4Gi", "", "3Gi of 4Gi"} {
		seen, disks, _ := r.observe(t.Context())
		if got := texts(seen)["imagefs.available"]; got != want || disks.image == disks.node || texts(seen)["nodefs.available"] == "" {
			t.Errorf("at %s: %q, disks %v; want %q", at, got, disks, want)
		}
		delete(there, "/old")
		at, there["/new"] = "/new", fileSystem{3, 4 << 30, 3 << 30, 100, 50}
	}
}

// The machine that runs the test has some of each resource.
func TestObserveThisMachine(t *testing.T) {
	r := reader{dir: t.TempDir(), waits: newWaits(), stat: statfs}
	seen, _, err := r.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []Signal{MemoryAvailable, NodeFsAvailable, PIDAvailable} {
		o, there := seen[signal]
		if !there || o.available.Sign() <= 0 || o.available.Cmp(o.capacity) > 0 {
			t.Errorf("%s: %v", signal, texts(seen)[string(signal)])
		}
	}
}
