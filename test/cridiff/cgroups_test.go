package cridiff

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestCgroupFiles: the limits of the pod, of its containers and of what is above it are found, with each driver.
func TestCgroupFiles(t *testing.T) {
	for name, c := range map[string]struct {
		root  string
		files map[string]string
		want  tree
	}{
		"cgroupfs, v1": {"/test", map[string]string{
			"memory/memory.limit_in_bytes":                                 "of the machine",
			"memory/test/kubepods/memory.limit_in_bytes":                   "1",
			"memory/test/kubepods/memory.usage_in_bytes":                   "no limit",
			"memory/test/kubepods/burstable/poda-b/memory.limit_in_bytes":  "2\n",
			"memory/test/kubepods/burstable/poda-b/c/cpuset.cpus":          "0-1",
			"memory/test/kubepods/burstable/poda-bc/memory.limit_in_bytes": "of another pod",
			"memory/test/kubepods/besteffort/memory.limit_in_bytes":        "of another class",
			"cpu/test/kubepods/burstable/poda-b/cpu.shares":                "3",
			"cpu/test/kubepods/burstable/poda-b/c/cpu.cfs_quota_us":        "-1",
		}, tree{
			"memory/kubepods/memory.limit_in_bytes": "1", "memory/kubepods/burstable/poda-b/memory.limit_in_bytes": "2",
			"memory/kubepods/burstable/poda-b/c/cpuset.cpus": "0-1", "cpu/kubepods/burstable/poda-b/cpu.shares": "3",
			"cpu/kubepods/burstable/poda-b/c/cpu.cfs_quota_us": "-1",
		}},
		"systemd, v2": {"/kubepods.slice", map[string]string{
			"memory.max":                                         "of the machine",
			"system.slice/memory.max":                            "of another slice",
			"kubepods.slice/memory.max":                          "1",
			"kubepods.slice/pids.max":                            "2",
			"kubepods.slice/memory.oom":                          "no limit",
			"kubepods.slice/kubepods-burstable.slice/cpu.weight": "3",
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cpu.max":                                     "max 100000",
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cri-containerd-c.scope/memory.oom.group":     "1",
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cri-containerd-c.scope/hugetlb.2MB.rsvd.max": "4",
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx_poda_c.slice/cpu.max":                                "of another pod",
		}, tree{
			"memory.max": "1", "pids.max": "2", "kubepods-burstable.slice/cpu.weight": "3",
			"kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cpu.max":                                     "max 100000",
			"kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cri-containerd-c.scope/memory.oom.group":     "1",
			"kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cri-containerd-c.scope/hugetlb.2MB.rsvd.max": "4",
		}},
		"no cgroups": {"/test", nil, tree{}},
	} {
		mount := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(mount, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		files, err := cgroupFiles(mount, c.root, "a-b")
		if err != nil {
			t.Fatal(err)
		}
		got := tree{}
		for path, text := range files {
			got[strings.TrimPrefix(path, mount+"/")] = text
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\nwant %v", name, got, c.want)
		}
	}
}

// TestNamed: the runtime's IDs in a tree's keys become names, and an unknown one stays, as it is a difference.
func TestNamed(t *testing.T) {
	id := func(digit string) string { return strings.Repeat(digit, 64) }
	tr := newTracer(strings.NewReplacer(), nil, false)
	tr.containers[id("1")], tr.pods[id("2")] = containerKey{"uid", "main"}, "uid"
	got := tr.named(tree{"cri-containerd-" + id("1") + ".scope/a": "1", id("2") + "/a": "2", id("3"): "3"})
	if want := (tree{"cri-containerd-main.scope/a": "1", "SANDBOX/a": "2", id("3"): "3"}); !reflect.DeepEqual(got, want) {
		t.Errorf("named: %v\nwant %v", got, want)
	}
}
