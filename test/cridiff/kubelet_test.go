//go:build kubelet

package cridiff

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// goldens are the pods of which each message is known.
const goldens = "../../internal/execsvc/pod/criconfig/testdata/golden"

// nodes are the nodes of golden pods.
var nodes = map[string]Node{
	"":                       {},
	"cpuCFSQuota-off":        {Config: "cpuCFSQuota: false\n"},
	"cpuCFSQuotaPeriod-10ms": {Config: "cpuCFSQuotaPeriod: 10ms\n", Gates: []string{"CustomCPUCFSQuotaPeriod=true"}},
	"seccomp-default":        {Config: "seccompDefault: true\n"},
	"no-seccomp-dir":         {},
	"hugepages":              {Facts: []string{hugePages}},
	// With LimitedSwap the kubelet doesn't start on cgroup v1.
	"v1-swap":         {Facts: []string{swap}},
	"v2":              {Facts: []string{cgroup2}},
	"v2-single-kill":  {Config: "singleProcessOOMKill: true\n", Facts: []string{cgroup2}},
	"v2-no-swap":      {Facts: []string{cgroup2, swap}},
	"v2-limited-swap": {Config: "memorySwap: {swapBehavior: LimitedSwap}\n", Facts: []string{cgroup2, swap}},
	"v2-memory-qos":   {Config: "memoryThrottlingFactor: 0.9\n", Gates: []string{"MemoryQoS=true"}, Facts: []string{cgroup2}},
}

// TestGoldenPods runs the golden pods with both agents, compares what they do, and then plants differences.
func TestGoldenPods(t *testing.T) {
	byNode, err := GoldenPods(goldens)
	if err != nil {
		t.Fatal(err)
	}
	if err := AddVariants(byNode); err != nil {
		t.Fatal(err)
	}
	total, ran := NewTable(), 0
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		node, ok := nodes[name]
		if !ok {
			t.Errorf("there is no node %q, of %d pods", name, len(byNode[name]))
		}
		t.Run("node="+name, func(t *testing.T) {
			total.Add(comparePods(t, Site{Node: node}, byNode[name]))
			ran++
		})
	}
	fmt.Printf("%d nodes\n%s", ran, total)
	if ran < len(byNode) {
		return // -run has left some out
	}
	slices.Sort(total.Refused)
	if !slices.Equal(total.Refused, refused) {
		t.Errorf("both refuse the manifests of %q; want %q", total.Refused, refused)
	}
	wantApplied(t, total, requestRules)
}

// wantApplied reports rules without a difference in the table.
func wantApplied(t *testing.T, table *Table, rules []Rule) {
	t.Helper()
	for i := range rules {
		if r := &rules[i]; table.ByRule[r.Name] == 0 && !r.ByChance {
			t.Errorf("rule %s applies to no difference", r.Name)
		}
	}
}

// comparePods runs the pods with both agents and prints the table. Each unexplained difference is an error, and each
// planted one that the comparison doesn't find.
func comparePods(t *testing.T, s Site, pods []*v1.Pod) *Table {
	t.Helper()
	return judge(t, pods, playAt(t, s, Kubelet, pods, alone), playAt(t, s, Podstream, pods, alone))
}

// judge compares what the agents did with the pods.
func judge(t *testing.T, pods []*v1.Pod, kubelet, podstream Trace) *Table {
	t.Helper()
	table := Compare(pods, kubelet, podstream)
	for _, d := range table.Unexplained {
		t.Error(&d)
	}
	table.Planted, table.Caught = plantAll(t, pods, kubelet, podstream)
	fmt.Printf("%s\n%s", t.Name(), table)
	if table.Planted == 0 {
		t.Error("no difference was planted")
	}
	return table
}

// play runs the pods with an agent beside a simulated runtime.
func play(t *testing.T, node Node, agent Agent, pods []*v1.Pod) Trace {
	t.Helper()
	return playAt(t, Site{Node: node}, agent, pods, alone)
}

// alone prepares nothing.
func alone(string) (func() error, error) { return func() error { return nil }, nil }

// playAt runs the pods with an agent in a new directory, after prepare, whose result is called at the end.
func playAt(t *testing.T, s Site, agent Agent, pods []*v1.Pod, prepare func(dir string) (func() error, error)) Trace {
	t.Helper()
	dir, err := os.MkdirTemp("", "cridiff")
	if err != nil {
		t.Fatal(err)
	}
	s.Dir, s.Programs, s.Systemd = dir, os.Getenv("CRIDIFF_PROGRAMS"), *machineRuntime != ""
	if !s.Systemd {
		s.CgroupRoot = fmt.Sprintf("/podstream-cridiff-%d", os.Getpid())
	}
	together := 15
	if s.Systemd && s.Runtime != "" {
		together = 4 // A guest has one processor.
	}
	end, err := prepare(dir)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Play(t.Context(), &s, agent, Batches(pods, together))
	if err != nil {
		t.Fatalf("%s: the log is in %s: %v", agent.Name, dir, errors.Join(err, end()))
	}
	if err := errors.Join(end(), s.Clear()); err != nil {
		t.Error(err)
	}
	return trace
}

// refused are the golden pods whose manifests both agents refuse: no pod of the API can be like that, or no static pod.
var refused = []string{
	"apparmor-by-annotation-beats-the-pod", "apparmor-by-annotation-of-another-container", "apparmor-by-annotation-unknown",
	"apparmor-field-beats-annotation", "apparmor-localhost-without-a-name", "apparmor-unknown", "claims-are-ignored", "env-of-fields",
	"hostname-invalid", "hugepages-of-a-size-that-the-node-has-not", "hugepages-of-both-sizes", "init-sidecar-main-and-ephemeral-containers",
	"mounts", "pod-level-hugepages", "privilege-escalation-forbidden-though-cap-sys-admin", "privilege-escalation-forbidden-though-privileged",
	"seccomp-localhost-absolute", "seccomp-localhost-escapes", "seccomp-localhost-without-a-name", "seccomp-unknown", "stop-signal-unknown",
	"subdomain-invalid", "supplemental-groups-policy-unknown",
}

var (
	randomPods = flag.Int("random.pods", 150, "the number of random pods")
	randomSeed = flag.Uint64("random.seed", 0, "their seed; 0: a new one")
)

// TestRandomPods runs pods with features at random.
func TestRandomPods(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1e6 //nolint:gosec // It isn't negative.
	}
	fmt.Printf("random pods: repeat with -random.seed=%d -random.pods=%d\n", seed, *randomPods)
	comparePods(t, Site{Removals: true}, RandomPods(seed, *randomPods))
}

// plantAll changes each thing that Podstream did, one at a time, and reports each change that the comparison doesn't
// find.
func plantAll(t *testing.T, pods []*v1.Pod, kubelet, podstream Trace) (planted, caught int) {
	t.Helper()
	plant := func(uid string, pods ...*v1.Pod) {
		if podstream[uid] == nil || kubelet[uid] == nil {
			return
		}
		before := len(Compare(pods, Trace{uid: kubelet[uid]}, Trace{uid: podstream[uid]}).Unexplained)
		for _, fault := range faults(podstream[uid], kubelet[uid]) {
			planted++
			table := Compare(pods, Trace{uid: kubelet[uid]}, Trace{uid: fault.steps})
			if len(table.Unexplained) > before {
				caught++
			} else {
				t.Errorf("%s: %s: the comparison doesn't find it", uid, fault.what)
			}
		}
	}
	for _, pod := range pods {
		plant(string(pod.UID), pod)
	}
	plant(noPod)
	return planted, caught
}
