package podctl

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// cpu returns stats at a time after noon, with a use if it isn't negative.
func cpu(at, total time.Duration, millis int64) *podexecv1.CPUStats {
	c := &podexecv1.CPUStats{Time: timestamppb.New(podctltest.Noon.Add(at)), UsageCoreNanoseconds: uint64(total), IntervalNanoseconds: int64(10 * time.Second)}
	if millis >= 0 {
		c.UsageMillicores = &millis
	}
	return c
}

func memory(mebibytes uint64) *podexecv1.MemoryStats {
	return &podexecv1.MemoryStats{WorkingSetBytes: mebibytes<<20 + 1}
}

// exampleStats are those of a node with two pods. If use is false, no use is known.
func exampleStats(use bool) *podexecv1.GetStatsResponse {
	of := func(millis int64) *podexecv1.CPUStats {
		if !use {
			millis = -1
		}
		return cpu(0, time.Minute, millis)
	}
	return &podexecv1.GetStatsResponse{
		Node: &podexecv1.NodeStats{
			Name: "node1", Cpu: of(1250), Memory: memory(2048), CapacityMillicores: 4000, AllocatableMillicores: 2500, CapacityMemoryBytes: 8 << 30, AllocatableMemoryBytes: 4 << 30,
		},
		Pods: []*podexecv1.PodStats{
			{
				Ref: usedBy("db-node1"), Cpu: of(7), Memory: memory(300), Containers: []*podexecv1.ContainerStats{{Name: "main", Cpu: of(7), Memory: memory(300)}},
				Network: &podexecv1.NetworkStats{Interfaces: []*podexecv1.InterfaceStats{{Name: "eth0", ReceivedBytes: 5 << 20, SentBytes: 7 << 20}, {Name: "b", SentBytes: 1 << 20}}},
			},
			{
				Ref: &podconfigv1.PodRef{Namespace: "shop", Name: "web-node1", Uid: "web"}, Cpu: of(250), Memory: memory(64),
				Containers: []*podexecv1.ContainerStats{{Name: "app", Cpu: of(10), Memory: memory(40)}, {Name: "proxy", Cpu: of(240), Memory: memory(24)}, {Name: "unread"}},
			},
		},
	}
}

func TestTop(t *testing.T) {
	for args, want := range map[string]string{
		"top pods": "NAMESPACE   NAME        CPU(cores)   MEMORY(bytes)\ndefault     db-node1    7m           300Mi\nshop        web-node1   250m         64Mi\n",
		"top po --sort-by=cpu": "NAMESPACE   NAME        CPU(cores)   MEMORY(bytes)\n" +
			"shop        web-node1   250m         64Mi\ndefault     db-node1    7m           300Mi\n",
		"top pod web --containers --sort-by memory": "NAMESPACE   POD         NAME     CPU(cores)   MEMORY(bytes)\n" +
			"shop        web-node1   app      10m          40Mi\nshop        web-node1   proxy    240m         24Mi\nshop        web-node1   unread   -            -\n",
		"top pods -n default -o wide": "NAMESPACE   NAME       CPU(cores)   MEMORY(bytes)   RECEIVED(bytes)   SENT(bytes)\n" +
			"default     db-node1   7m           300Mi           5Mi               8Mi\n",
		"top node":                  "NAME    CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)\nnode1   1250m        50%      2048Mi          50%\n",
		"top nodes --show-capacity": "NAME    CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)\nnode1   1250m        31%      2048Mi          25%\n",
	} {
		n := newNode(t)
		f := &imagePodexecd{stats: []*podexecv1.GetStatsResponse{exampleStats(true)}}
		n.withImages(f)
		if code := n.run(t.Context(), strings.Fields(args)...); code != exitOK || n.stdout.String() != want || n.stderr.String() != "" {
			t.Errorf("%s: exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", args, code, n.stderr, n.stdout, want)
		}
		if len(f.asked) != 1 || f.asked[0].GetOnlyCpuAndMemory() == strings.Contains(args, "wide") {
			t.Errorf("%s: asked for %v", args, f.asked)
		}
	}
	for args, want := range map[string]string{
		"top pods -o json": `"usageMillicores": 250`, "top node -o json": `"allocatableMillicores": 2500`, "top pods -o yaml": "usageCoreNanoseconds: 60000000000",
	} {
		n := newNode(t)
		n.withImages(&imagePodexecd{stats: []*podexecv1.GetStatsResponse{exampleStats(true)}})
		if code := n.run(t.Context(), strings.Fields(args)...); code != exitOK || !strings.Contains(n.stdout.String(), want) {
			t.Errorf("%s: exit code %d, stdout:\n%s", args, code, n.stdout)
		}
	}
}

// impatientClock doesn't wait.
type impatientClock struct{ noonClock }

func (impatientClock) After(time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	fired <- podctltest.Noon
	return fired
}

// If podexecd doesn't know the use of CPU, or only a mean of long ago, top asks again and computes it from the counters.
func TestTopSamples(t *testing.T) {
	after := exampleStats(false)
	for key, c := range cpuOf(after) {
		if c != nil {
			c.Time, c.UsageCoreNanoseconds = timestamppb.New(podctltest.Noon.Add(2*time.Second)), uint64(time.Minute+time.Second)
		}
		if key == "container web proxy" { // It was restarted.
			c.UsageCoreNanoseconds = 0
		}
	}
	old := exampleStats(true)
	old.Node.Cpu.IntervalNanoseconds = int64(2 * time.Minute)
	for name, first := range map[string]*podexecv1.GetStatsResponse{"unknown": exampleStats(false), "old": old} {
		n := newNode(t)
		n.clock = impatientClock{}
		f := &imagePodexecd{stats: []*podexecv1.GetStatsResponse{first, after}}
		n.withImages(f)
		if code := n.run(t.Context(), "top", "pods", "--containers"); code != exitOK || len(f.asked) != 2 {
			t.Errorf("%s: exit code %d, asked %d times", name, code, len(f.asked))
		}
		for _, line := range []string{"app      500m", "proxy    -", "main     500m"} {
			if !strings.Contains(n.stdout.String(), line) {
				t.Errorf("%s: no %q in:\n%s", name, line, n.stdout)
			}
		}
	}
}

func TestTopFails(t *testing.T) {
	for args, want := range map[string]string{
		"top": "", "top pods --sort-by=age": "want cpu or memory", "top node x": "takes flags only",
	} {
		n := newNode(t)
		code := n.run(t.Context(), strings.Fields(args)...)
		if args != "top" && (code != exitUsage || !strings.Contains(n.stderr.String(), want)) {
			t.Errorf("%s: exit code %d, stderr %q", args, code, n.stderr)
		}
		if args == "top" && !strings.Contains(n.stdout.String()+n.stderr.String(), "pods") {
			t.Errorf("top alone: exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
		}
	}
	n := newNode(t)
	n.withImages(&imagePodexecd{})
	if code := n.run(t.Context(), "top", "node"); code != exitFailed || !strings.Contains(n.stderr.String(), "runtime doesn't answer yet") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	n = newNode(t)
	n.withImages(&imagePodexecd{stats: []*podexecv1.GetStatsResponse{{}}})
	if code := n.run(t.Context(), "top", "node"); code != exitFailed || !strings.Contains(n.stderr.String(), "out of the scope") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	n = newNode(t)
	n.withImages(&imagePodexecd{stats: []*podexecv1.GetStatsResponse{{Node: &podexecv1.NodeStats{}}}})
	if code := n.run(t.Context(), "top", "pods", "-n", "x"); code != exitOK || n.stderr.String() != "podctl: no running pods found in namespace x\n" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

// Numbers that no machine has don't stop podctl.
func TestTopExtremes(t *testing.T) {
	first, second := exampleStats(false), exampleStats(false)
	first.Node.Cpu.UsageCoreNanoseconds, second.Node.Cpu.UsageCoreNanoseconds = 0, math.MaxUint64
	second.Node.Cpu.Time = timestamppb.New(podctltest.Noon.Add(1))
	addUse(first, second)
	if got := second.GetNode().GetCpu().GetUsageMillicores(); got != math.MaxInt32 {
		t.Errorf("%d", got)
	}
	if got := percentText(math.MaxInt64, 1); got == "" {
		t.Error("no percentage")
	}
	if got := percentText(1, 0); got != "" {
		t.Errorf("a share of nothing: %s", got)
	}
}
