package podexecd

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
)

// What the node's owner says of throttling reaches the containers.
func TestMemoryThrottlingFactorIsPassedOn(t *testing.T) {
	settings := &execconfig.Settings{Node: execconfig.Node{MemoryThrottlingFactor: 0.5}}
	if got := new(facts).forCRI(&Options{settings: settings}).MemoryThrottlingFactor; got != 0.5 {
		t.Errorf("%v, want 0.5", got)
	}
}

// A container without a limit is throttled by what all pods may use, in which, as with the kubelet, eviction keeps some
// free.
func TestMemoryForPodsIncludesWhatEvictionKeepsFree(t *testing.T) {
	memory := func(quantity string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(quantity)}
	}
	known := &facts{info: nodeinfo.Info{Capacity: memory("4Gi"), Bound: memory("3Gi"), Allocatable: memory("2Gi")}}
	if got := known.forCRI(&Options{settings: &execconfig.Settings{}}).MemoryForPods; got != 3<<30 {
		t.Errorf("%d, want 3Gi", got)
	}
}

// An ignored reservation of processes is logged, with what pods get, unless pods aren't limited at all.
func TestIgnoredReservationOfProcessesIsLogged(t *testing.T) {
	pids := func(n string) v1.ResourceList { return v1.ResourceList{"pid": resource.MustParse(n)} }
	ignored := nodeinfo.Info{Unreserved: pids("8000"), Bound: pids("8000"), IgnoredPIDs: resource.MustParse("9000")}
	limited := execconfig.Settings{Node: execconfig.Node{EnforceNodeAllocatable: []string{"pods"}, CgroupsPerQOS: true}}
	for name, c := range map[string]struct {
		info     nodeinfo.Info
		settings execconfig.Settings
		want     string
	}{
		"ignored":             {ignored, limited, "level=WARN"},
		"not ignored":         {nodeinfo.Info{Unreserved: pids("8000"), Bound: pids("7000")}, limited, ""},
		"pods aren't limited": {ignored, execconfig.Settings{Node: execconfig.Node{CgroupsPerQOS: true}}, ""},
		"no cgroup of pods":   {ignored, execconfig.Settings{Node: execconfig.Node{EnforceNodeAllocatable: []string{"pods"}}}, ""},
	} {
		var log bytes.Buffer
		known := &facts{info: c.info}
		known.warnOfPIDs(&c.settings, slog.New(slog.NewTextHandler(&log, nil)))
		if got := log.String(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) ||
			c.want != "" && !strings.Contains(got, "reserved=9k machine=8000 limit=8000 cgroup=/kubepods") {
			t.Errorf("%s: logged %q", name, got)
		}
	}
}

// What is reserved, and how many pods a CPU may have, is in what the node offers.
func TestReadMachine(t *testing.T) {
	opts := &Options{settings: &execconfig.Settings{Node: execconfig.Node{MaxPods: 1 << 20, EvictionHard: map[string]string{}}}}
	opts.RootDir = t.TempDir()
	all, err := readMachine(opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.settings.PodsPerCore, opts.settings.SystemReserved = 7, map[string]string{"cpu": "1m"}
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	opts.settings.ReservedSystemCPUs, _, _ = strings.Cut(strings.TrimSpace(string(online)), "-")
	got, err := readMachine(opts)
	if err != nil {
		t.Fatal(err)
	}
	cpus := all.Capacity.Cpu().Value()
	if left, pods := got.Allocatable.Cpu().Value(), got.Capacity.Pods().Value(); left != cpus-1 || pods != 7*cpus {
		t.Errorf("of %d CPUs, %d are for pods, which are %d; want %d, and %d pods", cpus, left, pods, cpus-1, 7*cpus)
	}
}
