package world

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/inside"
)

// TestResources: what the kernel gives and bounds is what the pod asks for, for each container and for the pod as a whole.
func TestResources(t *testing.T) {
	rows := []row{
		{
			name: "huge pages", needs: hugePages, golden: "hugepages-of-both-sizes",
			spec: `{containers: [{name: main, resources: {limits: {hugepages-2Mi: 2Mi, cpu: 100m, memory: 32Mi}}}]}`,
			check: func(r *inside.Report) error {
				return same("the limit", r.Limits["hugetlb.2MB.limit_in_bytes"]+r.Limits["hugetlb.2MB.max"], "2097152")
			},
		},
		{
			name:   "huge pages that the node has not",
			spec:   `{containers: [{name: main, resources: {limits: {hugepages-1Gi: 999Gi, cpu: 100m, memory: 32Mi}}}]}`,
			status: refused("UnexpectedAdmissionError", "(res: hugepages-1Gi, q: "),
		},
	}
	for i := range boundedPods {
		rows = append(rows, boundedPods[i].row())
	}
	runRows(t, rows)
}

// bounds are what a cgroup says. Zero values: nothing is bounded.
type bounds struct {
	// shares are the weight of cgroup v1: with v2 it is another one, and zero here.
	shares int
	// cpu is quota and period, in microseconds: "50000/100000".
	cpu string
	// memory is in MiB, pids a number of processes.
	memory, pids int
}

// bounded is a pod with resources, and what it gets.
type bounded struct {
	name, spec string
	// tier is the class's place: kubepods, burstable or besteffort.
	tier string
	// containers are what each gets that inspects, and pod what they get together.
	containers map[string]bounds
	pod        bounds
	// oom is how soon the kernel kills main, and what follows from it for others.
	oom int
}

var boundedPods = []bounded{
	{
		name: "nothing is asked for", spec: `{}`,
		tier: "besteffort", oom: 1000,
		containers: map[string]bounds{"main": {shares: 2}},
		pod:        bounds{shares: 2},
	},
	{
		name: "cpu request", spec: `{containers: [{name: main, resources: {requests: {cpu: 250m}}}]}`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"main": {shares: 256}},
		pod:        bounds{shares: 256},
	},
	{
		name: "cpu limit, which is a request too", spec: `{containers: [{name: main, resources: {limits: {cpu: 500m}}}]}`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"main": {shares: 512, cpu: "50000/100000"}},
		pod:        bounds{shares: 512, cpu: "50000/100000"},
	},
	{
		name: "cpu limit below the kernel's least", spec: `{containers: [{name: main, resources: {limits: {cpu: 5m}}}]}`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"main": {shares: 5, cpu: "1000/100000"}},
		pod:        bounds{shares: 5, cpu: "1000/100000"},
	},
	{
		name: "memory request", spec: `{containers: [{name: main, resources: {requests: {memory: 1Gi}}}]}`,
		tier: "burstable", oom: burstableOOM(1 << 30),
		containers: map[string]bounds{"main": {shares: 2}},
		pod:        bounds{shares: 2},
	},
	{
		name: "memory limit", spec: `{containers: [{name: main, resources: {limits: {memory: 64Mi}}}]}`,
		tier: "burstable", oom: burstableOOM(64 << 20),
		containers: map[string]bounds{"main": {shares: 2, memory: 64}},
		pod:        bounds{shares: 2, memory: 64},
	},
	{
		name: "limits of both", spec: `{containers: [{name: main, resources: {limits: {cpu: 500m, memory: 64Mi}}}]}`,
		tier: "kubepods", oom: -997,
		containers: map[string]bounds{"main": {shares: 512, cpu: "50000/100000", memory: 64}},
		pod:        bounds{shares: 512, cpu: "50000/100000", memory: 64},
	},
	{
		name: "a pod has what its containers have together", spec: `
containers:
- {name: main, resources: {requests: {cpu: 100m}, limits: {cpu: 200m, memory: 32Mi}}}
- {name: other, resources: {requests: {cpu: 300m}, limits: {cpu: 300m, memory: 64Mi}}}`,
		tier: "burstable", oom: burstableOOM(32 << 20),
		containers: map[string]bounds{
			"main": {shares: 102, cpu: "20000/100000", memory: 32}, "other": {shares: 307, cpu: "30000/100000", memory: 64},
		},
		pod: bounds{shares: 409, cpu: "50000/100000", memory: 96},
	},
	{
		name: "a pod has no limit if one of its containers has none", spec: `
containers:
- {name: main, resources: {limits: {cpu: 200m, memory: 32Mi}}}
- {name: other}`,
		tier: "burstable", oom: burstableOOM(32 << 20),
		containers: map[string]bounds{"main": {shares: 204, cpu: "20000/100000", memory: 32}, "other": {shares: 2}},
		pod:        bounds{shares: 204},
	},
	{
		name: "a sidecar counts beside the containers", spec: `
initContainers: [{name: sidecar, restartPolicy: Always, resources: {limits: {cpu: 100m, memory: 16Mi}}}]
containers: [{name: main, resources: {limits: {cpu: 200m, memory: 32Mi}}}]`,
		tier: "kubepods", oom: -997,
		containers: map[string]bounds{
			"sidecar": {shares: 102, cpu: "10000/100000", memory: 16}, "main": {shares: 204, cpu: "20000/100000", memory: 32},
		},
		pod: bounds{shares: 307, cpu: "30000/100000", memory: 48},
	},
	{
		name: "an init container counts beside the sidecars before it", spec: `
initContainers:
- {name: sidecar, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
- {name: init, args: [exit, "0"], resources: {requests: {cpu: 400m}}}
containers: [{name: main, resources: {requests: {cpu: 200m}}}]`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"sidecar": {shares: 102}, "main": {shares: 204}},
		pod:        bounds{shares: 512},
	},
	{
		name: "resources of the pod as a whole", spec: `
resources: {requests: {cpu: 200m, memory: 64Mi}, limits: {cpu: 500m, memory: 128Mi}}
containers:
- {name: main}
- {name: own, resources: {requests: {cpu: 100m}, limits: {cpu: 250m, memory: 48Mi}}}`,
		tier: "burstable", oom: burstableOOM((64 - 48) << 20 / 2),
		containers: map[string]bounds{
			"main": {shares: 512, cpu: "50000/100000", memory: 128}, "own": {shares: 102, cpu: "25000/100000", memory: 48},
		},
		pod: bounds{shares: 204, cpu: "50000/100000", memory: 128},
	},
}

// row is the pod as a row: its containers as they see themselves, and the cgroups as the node sees them.
func (b *bounded) row() row {
	return row{
		name: b.name, spec: b.spec,
		all: func(found map[string]*inside.Report) error {
			for name, want := range b.containers {
				if found[name] == nil {
					return fmt.Errorf("container %s has found nothing", name)
				}
				if err := compareBounds(name, found[name].Limits, want); err != nil {
					return err
				}
			}
			return same("main's oom_score_adj", found["main"].OOMScoreAdj, oomScoreAdj(b.oom))
		},
		node: func(p *pod, found map[string]*inside.Report) error {
			limits, err := p.limits(b.tier)
			if err != nil {
				return err
			}
			return errors.Join(compareBounds("the pod", limits, b.pod), p.processesAreWithin(len(found)))
		},
	}
}

// compareBounds compares what a cgroup's files say.
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

// amount is a number in a cgroup's file. It is zero for "max", and for the number of pages with which v1 says that.
func amount(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n > 1<<60 {
		return 0
	}
	return n
}

// cgroups are the directories of the pod's cgroup, in each hierarchy.
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

// limits are the files of the pod's cgroup, which must be in that tier.
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

// readCgroup adds a cgroup's files to those of its other hierarchies.
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

// processesAreWithin is nil if the pod's cgroup holds as many cgroups with a process in them as there are containers, and the sandbox's.
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

// burstableOOM is the rank of a burstable container that asks for so many bytes of memory: by its part of the node's.
func burstableOOM(request uint64) int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		panic(err)
	}
	return min(1000-int(1000*request/(info.Totalram*uint64(info.Unit))), 999)
}

// oomScoreAdj is what a process gets that is to have that rank: none below the runtime's own, and so this process's, as the nodes' runtimes
// are told not to lower it.
func oomScoreAdj(rank int) int {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		panic(err)
	}
	return max(rank, amount(strings.TrimSpace(string(text))))
}

// TestNodeLimits: what the node's settings say of all pods, and of all pods together.
func TestNodeLimits(t *testing.T) {
	flags := []string{"--pod-max-pids=100", "--cpu-cfs-quota-period=50ms", "--system-reserved=cpu=500m,memory=1Gi"}
	onOwnBench(t, flags, func(t *testing.T, b *bench) {
		one := newPod(t, b, "one")
		one.write("", `{containers: [{name: main, resources: {limits: {cpu: 400m}}}]}`, nil, nil)
		check(t, compareBounds("main", one.reports()["main"].Limits, bounds{shares: 409, cpu: "20000/50000"}))
		limits, err := one.limits("burstable")
		check(t, err)
		check(t, compareBounds("the pod", limits, bounds{shares: 409, cpu: "20000/50000", pids: 100}))

		two := newPod(t, b, "two")
		two.write("", `{containers: [{name: main, resources: {requests: {cpu: 600m}}}]}`, nil, nil)
		newPod(t, b, "guaranteed").write("", `{containers: [{name: main, resources: {limits: {cpu: 100m, memory: 16Mi}}}]}`, nil, nil)
		two.awaitReady()
		b.awaitTier(t, "kubepods/burstable", bounds{shares: 1024})
		b.awaitTier(t, "kubepods/besteffort", bounds{shares: 2})

		one.remove()
		one.awaitGone()
		b.awaitTier(t, "kubepods/burstable", bounds{shares: 614})
	})
}

// awaitTier waits until the cgroup of all pods, or of a class of them, is bounded so.
func (b *bench) awaitTier(t *testing.T, tier string, want bounds) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check(t, poll(ctx, func() error {
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
