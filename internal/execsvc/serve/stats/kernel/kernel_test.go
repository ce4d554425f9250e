package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Unix(1_700_000_000, 0)

// machine returns a Reader of these files.
func machine(t *testing.T, files map[string]string) *Reader {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return New(root)
}

const v2 = "sys/fs/cgroup/cgroup.controllers"

func TestGroupV2(t *testing.T) {
	g := "sys/fs/cgroup/a/"
	r := machine(t, map[string]string{
		v2: "cpu memory\n", g + "cpu.stat": "usage_usec 7\nuser_usec 4\nsystem_usec 3\ncore_sched.force_idle_usec 0\nnr_periods 9\nnr_throttled 2\nthrottled_usec 5\n",
		g + "cpu.max": "50000 100000\n", g + "cpu.weight": "100\n", g + "cpu.pressure": "some avg10=1.25 avg60=0.50 avg300=0.00 total=3\n",
		g + "memory.current": "100\n", g + "memory.max": "max\n", g + "memory.swap.current": "0\n", g + "memory.swap.max": "0\n",
		g + "memory.stat":   "anon 10\nfile 20\nkernel 3\nfile_mapped 4\nactive_file 5\ninactive_file 130\npgfault 8\npgmajfault 1\n",
		g + "memory.events": "low 0\nmax 6\noom 1\noom_kill 2\n", g + "pids.current": "3\n", g + "pids.max": "max\n",
		g + "io.stat": "254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n7:0 \n8:0 rbytes=9\n", g + "cgroup.procs": "0\n17\n18\n",
	})
	got, err := r.Group("/a", now, false)
	if err != nil {
		t.Fatal(err)
	}
	want := &Usage{
		At: now,
		CPU: CPU{
			Total: new(uint64(7000)), User: new(uint64(4000)), System: new(uint64(3000)), Periods: new(uint64(9)), ThrottledPeriods: new(uint64(2)),
			Throttled: new(uint64(5000)), Shares: new(uint64(2597)), Quota: new(uint64(50000)), Period: new(uint64(100000)),
			Pressure: &Pressure{Some: Stall{Avg10: 1.25, Avg60: 0.5, Total: 3000}},
		},
		Memory: Memory{
			// The two files weren't read at the same time.
			Usage: new(uint64(100)), WorkingSet: new(uint64(0)), RSS: new(uint64(10)), Cache: new(uint64(20)), Mapped: new(uint64(4)), Kernel: new(uint64(3)),
			ActiveFile: new(uint64(5)), InactiveFile: new(uint64(130)), Swap: new(uint64(0)), Faults: new(uint64(8)), MajorFaults: new(uint64(1)),
			Failures: new(uint64(6)), MaxEvents: new(uint64(6)), OOMKills: new(uint64(2)), Limit: new(uint64(Unlimited)), SwapLimit: new(uint64(0)),
		},
		Processes: new(uint64(3)), PID: 17, Threads: new(uint64(3)), ThreadsMax: new(uint64(Unlimited)),
		Disks: []Disk{{Device: "254:0", ReadBytes: 1, WriteBytes: 2, Reads: 3, Writes: 4}, {Device: "8:0", ReadBytes: 9}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, err = r.Group("../../a", now, true); err != nil || got.Memory.Max != nil || got.Processes != nil || *got.Memory.SwapLimit != 0 || *got.CPU.Total != 7000 {
		t.Errorf("a brief reading: %+v, %v", got, err)
	}
	if _, err := r.Group("/gone", now, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a cgroup that doesn't exist: %v", err)
	}
}

// OOMs are those of the cgroup itself, if the kernel counts them, and all processes of a group count once.
func TestOOMsV2(t *testing.T) {
	g := "sys/fs/cgroup/a/"
	for name, c := range map[string]struct {
		events, local string
		want          uint64
	}{
		"Linux 5.1":     {"oom_kill 7\n", "", 7},
		"none":          {"oom_kill 0\n", "oom_kill 0\noom_group_kill 0\n", 0},
		"some below":    {"oom_kill 7\noom_group_kill 5\n", "oom_kill 2\noom_group_kill 0\n", 2},
		"groups":        {"oom_kill 7\noom_group_kill 5\n", "oom 3\noom_kill 6\noom_group_kill 2\n", 2},
		"only below it": {"oom_kill 7\noom_group_kill 5\n", "oom_kill 0\noom_group_kill 0\n", 0},
	} {
		files := map[string]string{v2: "memory\n", g + "cpu.stat": "", g + "memory.stat": "anon 1\n", g + "memory.events": c.events}
		if c.local != "" {
			files[g+"memory.events.local"] = c.local
		}
		got, err := machine(t, files).Group("a", now, false)
		if err != nil || got.Memory.OOMKills == nil || *got.Memory.OOMKills != c.want {
			t.Errorf("%s: %+v, %v; want %d", name, got, err, c.want)
		}
	}
}

// Version 1 limits memory and swap together.
func TestSwapV1(t *testing.T) {
	for name, c := range map[string]struct {
		limit, both string
		want        *uint64
	}{
		"no limit":       {"9223372036854771712", "9223372036854771712", new(uint64(Unlimited))},
		"limited memory": {"1000", "9223372036854771712", new(uint64(Unlimited))},
		"some swap":      {"1000", "1500", new(uint64(500))},
		"no swap":        {"1000", "1000", new(uint64(0))},
		"no accounting":  {"1000", "", nil},
	} {
		files := map[string]string{"sys/fs/cgroup/memory/a/memory.stat": "total_rss 1\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": c.limit}
		if c.both != "" {
			files["sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes"] = c.both
		}
		got, err := machine(t, files).Group("a", now, true)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got.Memory.SwapLimit); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseOwn(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		v2   bool
		want string
	}{
		"v2":              {"0::/system.slice/a.service\n", true, "/system.slice/a.service"},
		"v2 at the root":  {"0::/\n", true, ""},
		"v1":              {"4:memory:/a\n2:cpu,cpuacct:/a\n0::/b\n", false, "/a"},
		"v1 in different": {"4:memory:/a\n2:cpuacct:/b\n", false, ""},
		"none":            {"", false, ""},
		"nonsense":        {"a:b\n:\n", true, ""},
	} {
		if got := parseOwn([]byte(c.file), c.v2); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

func TestMachineCantBeRead(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no stat": {"proc/meminfo": "MemTotal: 1 kB\n"}, "no meminfo": {"proc/stat": "cpu 1 2 3 4 5 6 7\n"},
		"no memory": {"proc/stat": "cpu 1 2 3 4 5 6 7\n", "proc/meminfo": "MemFree: 1 kB\n"},
	} {
		if m, err := machine(t, files).Machine(now, false); err == nil {
			t.Errorf("%s: %+v; want an error", name, m)
		}
	}
}

// A file may be longer than the buffer of one read.
func TestLongFile(t *testing.T) {
	lines := strings.Repeat("filler 1\n", 5000) + "anon 7\n"
	got, err := machine(t, map[string]string{v2: "", "sys/fs/cgroup/a/cpu.stat": "", "sys/fs/cgroup/a/memory.stat": lines}).Group("a", now, true)
	if err != nil || got.Memory.RSS == nil || *got.Memory.RSS != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}

// The machine that the test runs on.
func TestThisMachine(t *testing.T) {
	r := New("")
	before, err := r.Machine(now, false)
	if err != nil {
		t.Fatal(err)
	}
	if before.Total == 0 || *before.Memory.Usage > before.Total || *before.Memory.WorkingSet > *before.Memory.Usage || before.Boot.IsZero() || *before.CPU.Total == 0 {
		t.Errorf("%+v", before)
	}
	after, err := r.Machine(now, true)
	if err != nil || *after.CPU.Total < *before.CPU.Total {
		t.Errorf("%d after %d: %v", *after.CPU.Total, *before.CPU.Total, err)
	}
	if r.Topology().CPUs == 0 {
		t.Error("no processors")
	}
	if _, err := r.Network(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := r.Network(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a process that doesn't exist: %v", err)
	}
}

// TestPressureOfThisMachine: if the kernel has pressure, all three kinds are read, of the machine and with version 2 of
// this process's cgroup. Otherwise none is.
func TestPressureOfThisMachine(t *testing.T) {
	text, err := os.ReadFile("/proc/pressure/cpu") // It is there, but can't be read, if the kernel was started without.
	want := err == nil && len(text) > 0
	r := New("")
	m, err := r.Machine(now, false)
	if err != nil {
		t.Fatal(err)
	}
	usages := []*Usage{&m.Usage}
	if own := r.Own(); r.v2 && own != "" {
		u, err := r.Group(own, now, false)
		if err != nil {
			t.Fatal(err)
		}
		usages = append(usages, u)
	}
	t.Logf("pressure: %t, usages: %d", want, len(usages))
	for _, u := range usages {
		for _, p := range []*Pressure{u.CPU.Pressure, u.Memory.Pressure, u.IO} {
			if p != nil != want {
				t.Errorf("a kernel with pressure: %t; read %+v, %+v, %+v", want, u.CPU.Pressure, u.Memory.Pressure, u.IO)
				break
			}
		}
	}
}

// With any content of a file, a parser reads the fields that it supports.
func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		"usage_usec 7\nuser_usec x\n", "max 100000\n", "some avg10=1.25 avg60=x total=99999999999999999999\nfull\n", "254:0 rbytes=1 wbytes\n254:0 Read 5\n",
		"eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n:\n", "cpu 1 2 3 4 5 6 7 8\nbtime 18446744073709551615\n", "MemTotal: 1 kB\n", "1 2 3 4/5\n", "0::/a\n4:memory\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c CPU
		c.parseV2(data)
		c.parseMax(data)
		var m Memory
		m.parseV1(data)
		m.parseV2(data)
		if p := parsePressure(data); p != nil && (p.Some.Avg10 < 0 || p.Some.Avg10 > 100 || p.Full.Avg300 < 0 || p.Full.Avg300 > 100) {
			t.Errorf("no percentages: %+v", p)
		}
		disks := parseIOStat(data)
		parseThrottle(data, &disks, addBytes)
		parseThrottle(data, &disks, addRequests)
		if len(disks) > maxDisks {
			t.Errorf("%d disks", len(disks))
		}
		parseOpenFiles(data)
		stateOf(data)
		parseNetwork(data)
		parseDiskstats(data)
		parseTasks(data)
		parseOwn(data, true)
		var all Machine
		all.parseStat(data)
		all.parseMeminfo(data)
		if *all.Memory.WorkingSet > *all.Memory.Usage || *all.Memory.Usage > all.Total {
			t.Errorf("more is used than there is: %+v", all.Memory)
		}
	})
}

// If a machine lacks the first file of an ID, the second one is read, or the ID is empty.
func TestIdentity(t *testing.T) {
	if got := machine(t, nil).Identity(); got != (Identity{}) {
		t.Errorf("without any: %+v", got)
	}
	files := map[string]string{"proc/sys/kernel/random/boot_id": "b\n", "etc/machine-id": "m\n", "proc/device-tree/vm,uuid": "tree\x00"}
	if got := machine(t, files).Identity(); got != (Identity{Machine: "m", System: "tree", Boot: "b"}) {
		t.Errorf("of a device tree: %+v", got)
	}
	files["sys/class/dmi/id/product_uuid"] = "dmi\n"
	if got := machine(t, files).Identity(); got != (Identity{Machine: "m", System: "dmi", Boot: "b"}) {
		t.Errorf("of a PC: %+v", got)
	}
}
