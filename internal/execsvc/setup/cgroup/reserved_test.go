package cgroup

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
)

// newReserved makes a cgroup as an administrator does, with these resources reserved for it, and returns it opened too.
func newReserved(t *testing.T, resources ...string) (Reserved, group) {
	t.Helper()
	root := newRoot(t)
	d := driver{v2: cgroups.IsCgroup2UnifiedMode()}
	g, err := d.open(parseName(root))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.create(); err != nil {
		t.Fatal(err)
	}
	return Reserved{Name: root, Driver: Cgroupfs, Resources: list(resources...)}, g
}

// reservedFiles are the cgroup's limits as the kernel has them: memory, processes, and the cpu share.
func reservedFiles(t *testing.T, g group) map[string]string {
	t.Helper()
	memory := "memory.limit_in_bytes"
	if g.v2 {
		memory = "memory.max"
	}
	files := map[string]string{"memory": read(t, g.Path("memory"), memory), "pids": read(t, g.Path("pids"), "pids.max"), "cpu": shares(t, g)}
	for _, size := range g.existingPageSizes() {
		file := "hugetlb." + size + ".limit_in_bytes"
		if g.v2 {
			file = "hugetlb." + size + ".max"
		}
		files[size] = read(t, g.Path("hugetlb"), file)
	}
	return files
}

// TestReserved: an existing cgroup gets the limits, each by its resource, and keeps the others.
func TestReserved(t *testing.T) {
	half, quarter := "512", "256"
	if cgroups.IsCgroup2UnifiedMode() {
		half, quarter = "20", "10"
	}
	for name, c := range map[string]struct {
		resources    []string
		compressible bool
		want         map[string]string
	}{
		"all":          {[]string{"cpu", "500m", "memory", "64Mi", "pid", "100", "ephemeral-storage", "1Gi"}, false, map[string]string{"cpu": half, "memory": "67108864", "pids": "100"}},
		"compressible": {[]string{"cpu", "250m", "memory", "64Mi", "pid", "100"}, true, map[string]string{"cpu": quarter}},
		"memory":       {[]string{"memory", "32Mi"}, false, map[string]string{"memory": "33554432"}},
		"pid":          {[]string{"pid", "7"}, false, map[string]string{"pids": "7"}},
		"nothing":      {[]string{"memory", "0", "pid", "0"}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, g := newReserved(t, c.resources...)
			r.Compressible = c.compressible
			want := reservedFiles(t, g)
			for key := range want {
				if value, ok := c.want[key]; ok {
					want[key] = value
				} else if !c.compressible && !strings.Contains("cpu memory pids", key) {
					want[key] = "0" // Huge pages are for pods.
				}
			}
			for range 2 {
				if err := r.Enforce(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, reservedFiles(t, g)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestReservedMissing: a cgroup that doesn't exist is an error, and isn't made.
func TestReservedMissing(t *testing.T) {
	r, g := newReserved(t, "memory", "64Mi", "cpu", "1")
	r.Name += "/missing"
	err := r.Enforce()
	if err == nil || !strings.Contains(err.Error(), `"`+r.Name+`"`) || !strings.Contains(err.Error(), "missing paths") && !strings.Contains(err.Error(), "could not read controllers") {
		t.Errorf("the error is %v", err)
	}
	for _, dir := range g.dirs() {
		if _, err := os.Lstat(dir + "/missing"); !os.IsNotExist(err) {
			t.Errorf("%s is made: %v", dir, err)
		}
	}
}

// TestReservedOfPods: the limits of daemons aren't set where they would limit pods.
func TestReservedOfPods(t *testing.T) {
	for _, c := range []struct {
		driver, root, name string
		refused            bool
	}{
		{Cgroupfs, "/", "/kubepods", true},
		{Cgroupfs, "", "kubepods/", true},
		{Cgroupfs, "/", "/kubepods/burstable", true},
		{Cgroupfs, "/podstream-missing", "/podstream-missing", true},
		{Cgroupfs, "/podstream-missing", "/podstream-missing/kubepods/x", true},
		{Cgroupfs, "/podstream-missing", "/podstream-missing/kubepodsx", false},
		{Cgroupfs, "/podstream-missing", "/podstream-missing/kube", false},
		{Systemd, "/", "kubepods.slice", true},
		{Systemd, "/", "/kubepods.slice/kubepods-burstable.slice", true},
		{Systemd, "/podstream_missing", "/podstream_missing.slice", true},
		{Systemd, "/podstream-missing", "/podstream_missing.slice", true},
		{Systemd, "/podstream_missing", "/podstream_missing-system.slice", false},
	} {
		err := Reserved{Name: c.name, Driver: c.driver, Root: c.root, Resources: list("memory", "1Gi"), Compressible: true}.Enforce()
		if refused := err != nil && strings.Contains(err.Error(), "of all pods"); refused != c.refused {
			t.Errorf("%s, pods in %s, with %s: %v; want it refused: %v", c.name, c.root, c.driver, err, c.refused)
		}
	}
}

// TestReservedInUse: a limit below what the daemons use is an error, and none of them is killed.
func TestReservedInUse(t *testing.T) {
	r, g := newReserved(t, "memory", "8Mi")
	eater := startEater(t, g.Path("memory"), 32*mi)
	before := reservedFiles(t, g)
	err := r.Enforce()
	if err == nil {
		t.Error("no error")
	}
	if !eater.lives() {
		t.Fatal("the daemon was killed by the limit")
	}
	if diff := cmp.Diff(before, reservedFiles(t, g)); diff != "" {
		t.Errorf("the limits change (-want +got):\n%s", diff)
	}
	eater.kill(t)
	if err := r.Enforce(); err != nil {
		t.Error(err)
	}
}

// Caches don't count: the kernel reclaims them. A limit that doesn't get lower isn't compared with the usage.
func TestReservedFits(t *testing.T) {
	files := map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "memory.max": "max\n", "memory.current": "1000000\n",
		"memory.stat": "anon 400000\nfile 600000\ninactive_file 300000\nactive_file 200000\nslab_reclaimable 100000\n",
	}
	for limit, fits := range map[int64]bool{399_999: false, 400_000: true, 2_000_000: true} {
		if err := fakeV2(t, files).fits(limit); (err == nil) != fits || err != nil && !errors.Is(err, ErrBusy) {
			t.Errorf("%d bytes: %v; fits %t", limit, err, fits)
		}
	}
	files["memory.max"] = "4096\n"
	if err := fakeV2(t, files).fits(4096); err != nil {
		t.Errorf("the same limit again: %v", err)
	}
	if err := fakeV2(t, files).fits(4095); !errors.Is(err, ErrBusy) {
		t.Errorf("a lower one: %v", err)
	}
}

// On v2 a missing controller is an error, and the memory is protected if memory is reserved for pods.
func TestReservedV2(t *testing.T) {
	files := map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "memory.max": "max\n", "memory.current": "0\n", "memory.stat": "", "memory.min": "0\n", "memory.low": "7\n",
	}
	r := Reserved{Name: "/system", Driver: Cgroupfs, Resources: list("cpu", "1", "memory", "64Mi", "pid", "9"), ReserveMemory: true}
	g := fakeV2(t, files)
	if err := r.enforce(settings{v2: true, reserve: true}, g); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"memory.max": "67108864", "memory.min": "67108864", "memory.low": "7", "pids.max": "9", "cpu.weight": "39"}
	if diff := cmp.Diff(want, filesOf(t, g, "memory.max", "memory.min", "memory.low", "pids.max", "cpu.weight")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	files["memory.current"], files["memory.stat"] = "90000000\n", "inactive_file 1000000\n"
	g = fakeV2(t, files)
	if err := r.enforce(settings{v2: true, reserve: true}, g); !errors.Is(err, ErrBusy) || read(t, g.Path(""), "memory.max") != "max" {
		t.Errorf("with more memory in use: %v, and memory.max is %s", err, read(t, g.Path(""), "memory.max"))
	}
	files["cgroup.controllers"] = "memory\n"
	if err := r.enforce(settings{v2: true}, fakeV2(t, files)); err == nil || !strings.Contains(err.Error(), "missing controllers: cpu, pids") {
		t.Errorf("without controllers: %v", err)
	}
	r.Compressible = true
	if err := r.enforce(settings{v2: true}, fakeV2(t, files)); err == nil || !strings.HasSuffix(err.Error(), "missing controllers: cpu") {
		t.Errorf("without the cpu controller: %v", err)
	}
}

// The names are read as the kubelet reads them.
func TestReservedName(t *testing.T) {
	for _, c := range []struct{ driver, name, want string }{
		{Cgroupfs, "/system", "/system"},
		{Cgroupfs, "system", "/system"},
		{Cgroupfs, "/a/b-c", "/a/b-c"},
		{Cgroupfs, "/system.slice", "/system.slice"},
		{Systemd, "/system.slice", "/system.slice"},
		{Systemd, "system.slice", "/system.slice"},
		{Systemd, "/system", "/system.slice"},
		{Systemd, "/system-reserved", "/system.slice/system-reserved.slice"},
		{Systemd, "/kube.slice/kube-node.slice", "/kube.slice/kube-node.slice"},
		{Systemd, "/kube_node.slice", "/kube_node.slice"},
		{Systemd, "/system.slice/sshd.service", "/sshd.service.slice"},
		{Systemd, "/-.slice", ""},
		{Systemd, "/a--b.slice", ""},
		{Cgroupfs, "/", ""},
		{Systemd, "/", ""},
	} {
		n, err := Reserved{Name: c.name, Driver: c.driver}.parse()
		got := ""
		if err == nil {
			got = driver{systemd: c.driver == Systemd}.path(n)
		}
		if got != c.want {
			t.Errorf("%s with %s is %q, %v; want %q", c.name, c.driver, got, err, c.want)
		}
	}
}
