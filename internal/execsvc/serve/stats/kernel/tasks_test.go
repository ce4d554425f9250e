package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func always() bool { return true }

// withTasks returns a machine with a cgroup of two processes. The first has three threads and three files, one of which
// is a socket; the name of its program looks like a state.
func withTasks(t *testing.T) *Reader {
	t.Helper()
	r := machine(t, map[string]string{
		v2: "cpu\n", "sys/fs/cgroup/a/cgroup.procs": "0\n17\n18\n19\n",
		"proc/17/limits":       "Limit                     Soft Limit           Hard Limit           Units     \nMax open files            1024                 unlimited            files     \n",
		"proc/17/task/17/stat": "17 (a) D 1) S 1 17 17 0\n", "proc/17/task/21/stat": "21 (b) R 1 17\n", "proc/17/task/22/stat": "22 (b) T 1 17\n",
		"proc/18/limits":       "Max open files            7                 8            files     \n",
		"proc/18/task/18/stat": "18 (c) D 1 18\n", "proc/18/task/23/stat": "23 (c) Z 1 18\n",
	})
	for pid, targets := range map[string][]string{"17": {"/dev/null", "socket:[4242]", "/socket:/file"}, "18": {"pipe:[1]"}} {
		if err := os.MkdirAll(r.path("proc/"+pid+"/fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		for i, target := range targets {
			if err := os.Symlink(target, r.path(fmt.Sprintf("proc/%s/fd/%d", pid, i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// Files and threads of all processes are counted; a process that has just ended, 19, has none.
func TestTasks(t *testing.T) {
	r := withTasks(t)
	want := &Tasks{Descriptors: 4, Sockets: 1, OpenFiles: new(uint64(1024)), Running: 1, Sleeping: 1, Stopped: 1, Uninterruptible: 1}
	if diff := cmp.Diff(want, r.Tasks("/a", always)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := r.Tasks("/gone", always); got != nil {
		t.Errorf("of a cgroup that doesn't exist: %+v", got)
	}
	if got := parseOpenFiles([]byte("Max open files  unlimited unlimited files\n")); got == nil || *got != Unlimited {
		t.Errorf("without a limit: %v", got)
	}
}

// The count ends with the budget, and has what was counted until then.
func TestTasksBudget(t *testing.T) {
	r := withTasks(t)
	for files := range 10 {
		asked := 0
		got := r.Tasks("/a", func() bool { asked++; return asked <= files })
		if looked := got.Descriptors + got.Running + got.Sleeping + got.Stopped + got.Uninterruptible; looked > uint64(files) { //nolint:gosec // Not negative.
			t.Errorf("with a budget of %d: %+v", files, got)
		}
		if files < 10 && asked > files+4 {
			t.Errorf("with a budget of %d, it went on %d times", files, asked-files)
		}
	}
}

// A pod can't fill the answer with interfaces or disks.
func TestNumbersOfOnePod(t *testing.T) {
	var net, stat, throttle strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&net, "eth%d: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", i)
		fmt.Fprintf(&stat, "7:%d rbytes=1 wbytes=2 rios=3 wios=4\n", i)
		fmt.Fprintf(&throttle, "7:%d Read 1\n", i)
	}
	r := machine(t, map[string]string{"proc/17/net/dev": net.String(), "proc/1/net/dev": net.String()})
	if got, err := r.Network(17); err != nil || len(got) != maxInterfaces || got[0].Name != "eth0" {
		t.Errorf("%d interfaces of a pod, %v", len(got), err)
	}
	if got, err := r.Network(1); err != nil || len(got) != 5000 {
		t.Errorf("%d interfaces of the machine, %v", len(got), err)
	}
	var disks []Disk
	parseThrottle([]byte(throttle.String()), &disks, addBytes)
	if got := parseIOStat([]byte(stat.String())); len(got) != maxDisks || len(disks) != maxDisks {
		t.Errorf("%d and %d disks", len(got), len(disks))
	}
}

// The times of a disk, its cost model, and the kinds of operations of version 1.
func TestDisks(t *testing.T) {
	got := parseDiskstats([]byte(" 254 0 vda 100 1 2000 50 200 2 4000 70 3 100 120 0 0\n"))
	want := []Disk{{
		Device: "254:0", Reads: 100, ReadBytes: 2000 * 512, Writes: 200, WriteBytes: 4000 * 512,
		Times: &DiskTimes{
			ReadsMerged: 1, WritesMerged: 2, ReadSectors: 2000, WriteSectors: 4000, InProgress: 3,
			Reading: 50e6, Writing: 70e6, Busy: 100e6, Weighted: 120e6,
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diskstats, -want +got:\n%s", diff)
	}
	got = parseIOStat([]byte("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0 cost.vrate=100.00 cost.usage=5 cost.wait=6 cost.indebt=7 cost.indelay=8\n"))
	want = []Disk{{Device: "8:0", ReadBytes: 1, WriteBytes: 2, Reads: 3, Writes: 4, Cost: &IOCost{5000, 6000, 7000, 8000}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("io.stat, -want +got:\n%s", diff)
	}
	got = nil
	parseThrottle([]byte("8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Total 3\nTotal 3\n"), &got, addBytes)
	want = []Disk{{Device: "8:0", ReadBytes: 1, WriteBytes: 2, Operations: []Operation{{"Read", 1}, {"Write", 2}, {"Sync", 3}, {"Total", 3}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("throttle, -want +got:\n%s", diff)
	}
}

// The open files of a process of this machine are counted: this process has at least its own.
func TestTasksOfThisMachine(t *testing.T) {
	r := New("")
	procs := filepath.Join(t.TempDir(), "sys/fs/cgroup/memory/own/cgroup.procs")
	if r.v2 {
		procs = filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(procs))), "own/cgroup.procs")
	}
	root := strings.TrimSuffix(procs, strings.TrimPrefix(procs[strings.Index(procs, "/sys/fs/cgroup"):], "/"))
	if err := os.MkdirAll(filepath.Dir(procs), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(procs, fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc", filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	own := New(root)
	own.v2 = r.v2
	got := own.Tasks("/own", always)
	if got == nil || got.Descriptors < 3 || got.OpenFiles == nil || got.Running+got.Sleeping < 2 {
		t.Errorf("of this process: %+v", got)
	}
}
