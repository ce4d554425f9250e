package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs2"
	v1 "k8s.io/api/core/v1"
)

// fakeV2 is a v2 cgroup made of regular files, for machines without v2.
func fakeV2(t *testing.T, files map[string]string) group {
	t.Helper()
	cgroups.TestMode = true
	t.Cleanup(func() { cgroups.TestMode = false })
	dir := t.TempDir()
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := fs2.NewManager(&cgroups.Cgroup{Resources: &cgroups.Resources{}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return group{driver: driver{v2: true}, Manager: m}
}

func filesOf(t *testing.T, g group, names ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range names {
		files[name] = read(t, g.Path(""), name)
	}
	return files
}

func TestV2Files(t *testing.T) {
	g := fakeV2(t, map[string]string{
		"cgroup.controllers": "cpuset cpu io memory hugetlb pids\n", "memory.max": "max\n", "cpu.max": "max 100000\n", "memory.current": "4096\n",
	})
	s := settings{v2: true, reserve: true, period: 100_000, podPids: 10, hugePages: []string{"2MB"}}
	names := []string{"memory.max", "cpu.max", "cpu.weight", "pids.max", "memory.min", "memory.low", "hugetlb.2MB.max"}
	for _, tc := range []struct {
		pod  *v1.Pod
		want []string
	}{
		{podOf("u", same("cpu", "500m", "memory", "64Mi", "hugepages-2Mi", "2Mi")),
			[]string{"67108864", "50000 100000", "20", "10", "67108864", "0", "2097152"}},
		// No setting of one pod stays for another one that requests less.
		{podOf("u", container(list("memory", "1Mi"), nil)), []string{"max", "max 100000", "1", "10", "0", "1048576", "0"}},
		{podOf("u", container(nil, nil)), []string{"max", "max 100000", "1", "10", "0", "0", "0"}},
	} {
		if err := g.set(s.pod(tc.pod)); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for i, name := range names {
			want[name] = tc.want[i]
		}
		if diff := cmp.Diff(want, filesOf(t, g, names...)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestV2Shrink: v2 accepts a limit below the usage, and kills. So none is ever written, except the current one again.
func TestV2Shrink(t *testing.T) {
	g := fakeV2(t, map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "memory.max": "67108864\n", "cpu.max": "100000 100000\n", "memory.current": "67108864\n",
	})
	s := settings{v2: true, period: 100_000}
	if have, err := g.limits(); err != nil || have.Memory != 64*mi || have.CpuQuota != 100_000 {
		t.Errorf("%d bytes, %d µs, %v", have.Memory, have.CpuQuota, err)
	}
	if err := g.set(s.pod(podOf("u", same("cpu", "1", "memory", "64Mi")))); err != nil {
		t.Errorf("the same limit again: %v", err)
	}
	if err := g.set(s.pod(podOf("u", same("cpu", "500m", "memory", "32Mi")))); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	want := map[string]string{"memory.max": "67108864", "cpu.max": "50000 100000"}
	if diff := cmp.Diff(want, filesOf(t, g, "memory.max", "cpu.max")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
