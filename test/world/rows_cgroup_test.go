package world

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// TestNodeLimits: the node's settings for each pod, and for all pods together.
func TestNodeLimits(t *testing.T) {
	t.Parallel()
	flags := []string{"--pod-max-pids=100", "--cpu-cfs-quota-period=50ms", "--system-reserved=cpu=500m,memory=1Gi,pid=1000"}
	onOwnBench(t, latest, flags, func(t *testing.T, b *bench) {
		one := newPod(t, b, "one")
		one.write("", `{containers: [{name: main, resources: {limits: {cpu: 40m}}}]}`, nil, nil)
		check(t, compareBounds("main", one.reports()["main"].Limits, bounds{shares: 40, cpu: "2000/50000"}))
		limits, err := one.limits("burstable")
		check(t, err)
		check(t, compareBounds("the pod", limits, bounds{shares: 40, cpu: "2000/50000", pids: 100}))

		two := newPod(t, b, "two")
		two.write("", `{containers: [{name: main, resources: {requests: {cpu: 60m}}}]}`, nil, nil)
		newPod(t, b, "guaranteed").write("", `{containers: [{name: main, resources: {limits: {cpu: 10m, memory: 16Mi}}}]}`, nil, nil)
		two.awaitReady()
		b.awaitTier(t, "kubepods/burstable", bounds{shares: 102})
		b.awaitTier(t, "kubepods/besteffort", bounds{shares: 2})

		cpus, memory := runtime.NumCPU(), totalMemory()
		b.awaitTier(t, "kubepods", bounds{shares: cpus*1024 - 512, memory: int((memory - 1<<30) >> 20), pids: processes(t) - 1000})

		one.remove()
		one.awaitGone()
		b.awaitTier(t, "kubepods/burstable", bounds{shares: 61})
	})
}

// processes is how many processes the kernel allows.
func processes(t *testing.T) int {
	t.Helper()
	var limits []int
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + name)
		check(t, err)
		limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
		check(t, err)
		limits = append(limits, limit)
	}
	return slices.Min(limits)
}

// awaitTier waits until the cgroup of all pods, or of a QoS class, has these bounds.
func (b *bench) awaitTier(t *testing.T, tier string, want bounds) {
	t.Helper()
	check(t, rig.Poll(patience, func() error {
		dirs, err := b.Node.CgroupDirs()
		if err != nil {
			return err
		}
		files := map[string]string{}
		for _, dir := range dirs {
			if strings.HasSuffix(dir, "/"+b.Name+"-podexecd/"+tier) {
				if err := readCgroup(files, dir); err != nil {
					return err
				}
			}
		}
		return compareBounds(tier, files, want)
	}))
}

// bounds are the limits of a cgroup. Zero values mean that there is no limit.
type bounds struct {
	// shares are the CPU shares of cgroup v1. With v2 the weight has another scale, and shares is zero.
	shares int
	// cpu is the quota and the period, in microseconds: "50000/100000".
	cpu string
	// memory is in MiB, pids a number of processes.
	memory, pids int
}

// compareBounds compares the limits in a cgroup's files.
func compareBounds(what string, files map[string]string, want bounds) error {
	got := bounds{memory: amount(files["memory.limit_in_bytes"]) >> 20, pids: amount(files["pids.max"])}
	if shares, v1 := files["cpu.shares"]; v1 {
		got.shares = amount(shares)
		if quota := files["cpu.cfs_quota_us"]; quota != "-1" {
			got.cpu = quota + "/" + files["cpu.cfs_period_us"]
		}
	} else {
		want.shares = 0
		got.memory = amount(files["memory.max"]) >> 20
		if quota, period, _ := strings.Cut(files["cpu.max"], " "); quota != "max" {
			got.cpu = quota + "/" + period
		}
	}
	return same(what+"'s cgroup", got, want)
}

// amount returns the number in a cgroup's file. It returns zero for "max", and for the number of pages that cgroup v1
// has instead.
func amount(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n > 1<<60 {
		return 0
	}
	return n
}

// cgroups returns the directories of the pod's cgroup, in each hierarchy.
func (p *pod) cgroups() ([]string, error) {
	all, err := p.b.Node.CgroupDirs()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, dir := range all {
		if path.Base(dir) == "pod"+string(p.b.pod(p.name).UID) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, errors.New("the pod has no cgroup")
	}
	return dirs, nil
}

// limits returns the files of the pod's cgroup, which must be in that tier.
func (p *pod) limits(tier string) (map[string]string, error) {
	dirs, err := p.cgroups()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, dir := range dirs {
		if err := same("the tier of "+dir, path.Base(path.Dir(dir)), tier); err != nil {
			return nil, err
		}
		if err := readCgroup(files, dir); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readValue returns the value of a file of a cgroup.
func readValue(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text)), err
}

// readCgroup adds a cgroup's files to the files of its other hierarchies.
func readCgroup(files map[string]string, dir string) error {
	for _, name := range []string{
		"cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes", "pids.max", "cpu.max", "memory.max",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			files[name] = strings.TrimSpace(string(text))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// processesAreWithin returns nil if the number of cgroups with processes in the pod's cgroup is the number of
// containers, and one more for the sandbox.
func (p *pod) processesAreWithin(containers int) error {
	dirs, err := p.cgroups()
	if err != nil {
		return err
	}
	most := 0
	for _, dir := range dirs {
		inner, err := filepath.Glob(dir + "/*/cgroup.procs")
		if err != nil {
			return err
		}
		with := 0
		for _, file := range inner {
			if text, err := os.ReadFile(file); err != nil {
				return err
			} else if len(text) > 0 {
				with++
			}
		}
		most = max(most, with)
	}
	return same("the number of cgroups with processes in the pod's", most, containers+1)
}

// burstableOOM returns the oom_score_adj of a burstable container that requests so many bytes of memory. It depends on
// the fraction of the node's memory.
func burstableOOM(request uint64) int { return min(1000-int(1000*request/totalMemory()), 999) }

// totalMemory returns the node's memory, in bytes.
func totalMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		panic(err)
	}
	return info.Totalram * uint64(info.Unit)
}

// oomScoreAdj returns the value of a process whose container has this rank. On a machine where the nodes' runtimes can't
// lower a value, it isn't below the runtime's own, which is also this process's.
func oomScoreAdj(rank int) int {
	if devnode.LowersOOMScores() {
		return rank
	}
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		panic(err)
	}
	return max(rank, amount(strings.TrimSpace(string(text))))
}
