package eviction

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/localstorage"
	"github.com/podstream/podstream/internal/metrictest"
)

func (h *harness) want(what string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.took()); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Memory runs out: the pod with the largest excess over its request is evicted, the next one once that one is gone,
// and the condition lasts for the transition period.
func TestMemory(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("small", 0, "10Mi"), podOf("large", 0, "10Mi"), podOf("within", 0, "1Gi")}
		h.uses("small", 20, 0)
		h.uses("large", 500, 0)
		h.uses("within", 900, 0)
		m := h.run()
		h.want("at first")
		h.memory(99)
		pass(period)
		h.want("short", "changed", "Attempting to reclaim memory", "evict large within 1")
		if m.Pressure() != (nodestatus.Pressure{Memory: true}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
		if _, refused := m.Admit(tolerating(podOf("new", 0, "1"), "x")); refused {
			t.Error("a pod with a memory request is refused")
		}
		pass(10 * time.Second)
		h.want("while it ends")
		h.set(func() { h.gone["large"] = true })
		pass(terminationPeriod)
		h.want("it is gone, and that wasn't enough", "evict small within 1")
		pass(terminationSlack)
		h.want("in its time and a while")
		pass(terminationPeriod)
		h.want("one that doesn't end isn't waited for forever", "evict within within 1")
		h.memory(100)
		pass(terminationSlack + terminationPeriod)
		h.want("enough, and none is left")
		pass(defaultTransition - terminationSlack - period)
		if m.Pressure() == (nodestatus.Pressure{}) {
			t.Error("the condition ends too soon")
		}
		pass(period)
		h.want("the pressure is over", "changed")
		metrictest.Want(t, h.registry, map[string]float64{"kubelet_evictions{eviction_signal=memory.available}": 3})
		if got := metrictest.Value(t, h.registry, "kubelet_eviction_stats_age_seconds", "eviction_signal", "memory.available"); got < 3 {
			t.Errorf("the age of %v observations was measured; want one for each eviction", got)
		}
		if m.Pressure() != (nodestatus.Pressure{}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
	})
}

// A soft threshold waits for its grace period, and gives pods theirs.
func TestSoft(t *testing.T) {
	s := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "200Mi"}, SoftGracePeriod: map[string]string{"memory.available": "30s"},
	}
	inBubble(t, s, func(t *testing.T, h *harness) {
		h.cfg.MaxPodGracePeriod, h.cfg.Gone = 60, nil
		quick, slow := podOf("quick", 0, "1Mi"), podOf("slow", 1, "1Mi")
		quick.Spec.TerminationGracePeriodSeconds = new(int64(5))
		slow.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		h.pods = []*v1.Pod{slow, quick, podOf("any", 2, "1Mi")}
		for _, uid := range []types.UID{"quick", "slow", "any"} {
			h.uses(uid, 10, 0)
		}
		h.memory(199)
		h.run()
		h.want("at once", "changed")
		pass(29 * time.Second)
		h.want("for a while")
		pass(time.Second)
		h.want("after 30 s", "Attempting to reclaim memory", "evict quick within 5")
		pass(period)
		h.want("ten seconds later", "evict slow within 60")
		pass(period)
		h.want("and again", "evict any within 30")
		pass(time.Hour)
		h.want("then there are none")
	})
}

// With evictionMaxPodGracePeriod below zero, pods get their own grace periods.
func TestOwnGrace(t *testing.T) {
	s := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "200Mi"}, SoftGracePeriod: map[string]string{"memory.available": "0s"},
	}
	inBubble(t, s, func(t *testing.T, h *harness) {
		h.cfg.MaxPodGracePeriod = -1
		pod := podOf("slow", 1, "1Mi")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		m := New(h.cfg)
		if got := m.gracePeriod(Threshold{gracePeriod: time.Second}, pod); got != 3600 {
			t.Errorf("it has %d s", got)
		}
		if got := m.gracePeriod(Threshold{}, pod); got != 1 {
			t.Errorf("at a hard threshold it has %d s", got)
		}
	})
}

// ObserveOnce sets the conditions and evicts no pod; a pod that was terminating by itself is not counted as evicted.
func TestObserveOnce(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.cfg.Gone = nil
		h.ending = map[types.UID]bool{"a": true}
		h.pods = []*v1.Pod{podOf("a", 0, "0")}
		h.uses("a", 1, 0)
		h.memory(1)
		m := New(h.cfg)
		m.reader.stat = func(string) (fileSystem, error) { return h.node, nil }
		m.ObserveOnce(t.Context())
		h.want("begun", "changed")
		if m.Pressure() != (nodestatus.Pressure{Memory: true}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
		why, refused := m.Admit(podOf("new", 0, "0"))
		if !refused || !why.Transient || why.Message != "The node had condition: [MemoryPressure]. " {
			t.Errorf("a best-effort pod: %v, %+v", refused, why)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { m.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		pass(period - 1)
		h.want("for a period")
		pass(1)
		h.want("a look", "Attempting to reclaim memory", "evict a within 1")
		metrictest.Want(t, h.registry, map[string]float64{"kubelet_evictions": 0})
	})
}

// Exited containers and unused images are removed first, and a pod is evicted only if that isn't enough.
func TestDisk(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"nodefs.available": "10%"}}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("layers", 0, "0"), podOf("logs", 0, "0")}
		h.disk["layers"] = localstorage.Usage{Layers: figures("main", 900, 0)}
		h.disk["logs"] = files(diskusage.Usage{Logs: figures("main", 100, 0), EmptyDirs: figures("v", 700, 0)})
		h.run()
		h.set(func() {
			h.node.free = 9 << 30
			h.reclaims = func() { h.node.free += 5 << 30 }
		})
		pass(period)
		h.want("what helps", "changed", "Attempting to reclaim ephemeral-storage", "exited containers", "images")
		pass(period)
		h.want("well again")
		h.set(func() { h.node.free, h.reclaims = 9<<30, func() {} })
		pass(period)
		h.want("what doesn't", "Attempting to reclaim ephemeral-storage", "exited containers", "images", "evict layers within 1")
		if h.logged("can't remove all exited containers") != 1 {
			t.Errorf("log:\n%s", h.log.String())
		}
	})
	// If images have a disk of their own, nothing can be removed from nodefs, and writable layers aren't on it.
	inBubble(t, Settings{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "10%"}}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("layers", 0, "0"), podOf("logs", 0, "0")}
		h.disk["layers"] = localstorage.Usage{Layers: figures("main", 900, 0)}
		h.disk["logs"] = files(diskusage.Usage{Logs: figures("main", 100, 0)})
		h.cfg.Gone = nil
		h.image.device = 2
		h.node.free = 1
		h.run()
		h.want("the node's disk", "changed", "Attempting to reclaim ephemeral-storage", "evict logs within 1")
		h.set(func() { h.node.free, h.image.free = 50<<30, 1 })
		pass(period)
		h.want("the images' disk", "exited containers", "images", "evict layers within 1")
	})
}

func TestInodes(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"nodefs.inodesFree": "5%"}}, func(t *testing.T, h *harness) {
		h.cfg.Gone, h.cfg.RemoveExitedContainers, h.cfg.RemoveUnusedImages = nil, nil, nil
		h.pods = []*v1.Pod{podOf("layer", 0, "0"), podOf("volume", 0, "0"), podOf("bytes", 0, "0")}
		layer := files(diskusage.Usage{Logs: figures("main", 0, 1)})
		layer.Layers = figures("main", 0, 3)
		h.disk["layer"] = layer
		h.disk["volume"] = files(diskusage.Usage{EmptyDirs: figures("v", 0, 3), Logs: figures("main", 0, 1), Messages: figures("main", 0, 1)})
		h.disk["bytes"] = files(diskusage.Usage{EmptyDirs: figures("v", 1<<40, 1)})
		h.node.filesFree = 49
		h.run()
		h.want("files run out", "changed", "Attempting to reclaim inodes", "evict volume within 1")
		pass(period)
		h.want("then", "evict layer within 1")
	})
}

// A pod with more files than can be counted is evicted first, and an unfinished count is a lower bound of a pod's
// usage: no pod is spared because its files take long to count, and no other pod is evicted in its place.
func TestUncountablePodIsEvictedFirst(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"nodefs.available": "10%"}}, func(t *testing.T, h *harness) {
		h.cfg.Gone, h.cfg.RemoveExitedContainers, h.cfg.RemoveUnusedImages = nil, nil, nil
		h.pods = []*v1.Pod{podOf("small", 0, "0"), podOf("hosts", 0, "0"), podOf("counting", 0, "0"), podOf("endless", 0, "0"), podOf("unknown", 0, "0")}
		h.disk["small"] = files(diskusage.Usage{EmptyDirs: figures("v", 100, 1)})
		h.disk["hosts"] = files(diskusage.Usage{Hosts: diskusage.Figure{Bytes: 3000}})
		h.disk["counting"] = localstorage.Usage{Usage: diskusage.Usage{Unfinished: diskusage.Figure{Bytes: 2000}}}
		h.disk["endless"] = files(diskusage.Usage{Uncountable: true, Err: errors.New("too deep")})
		h.node.free = 1
		h.run()
		h.want("the disk is full", "changed", "Attempting to reclaim ephemeral-storage", "evict endless within 1")
		for _, next := range []string{"hosts", "counting", "small"} {
			pass(period)
			h.want("then", "evict "+next+" within 1")
		}
		pass(period)
		h.want("one of which nothing is known")
	})
}

func TestProcesses(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"pid.available": "1k"}}, func(t *testing.T, h *harness) {
		h.cfg.Gone = nil
		h.pods = []*v1.Pod{podOf("few", 0, "0"), podOf("many", 0, "0"), podOf("most", 5, "0")}
		for uid, n := range map[string]uint64{"few": 2, "many": 20, "most": 200} {
			h.sandbox = append(h.sandbox, &runtimeapi.PodSandboxStats{
				Attributes: &runtimeapi.PodSandboxAttributes{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}},
				Linux:      &runtimeapi.LinuxPodSandboxStats{Process: &runtimeapi.ProcessUsage{ProcessCount: &runtimeapi.UInt64Value{Value: n}}},
			})
		}
		write(t, h.root, map[string]string{"proc/loadavg": "0 0 0 1/29001 5\n"})
		m := h.run()
		h.want("processes run out", "changed", "Attempting to reclaim pids", "evict many within 1")
		if m.Pressure() != (nodestatus.Pressure{PID: true}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
	})
}

// While no threshold is met, nothing is measured; without thresholds, nothing is read.
func TestQuiet(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("a", 0, "0")}
		h.run()
		pass(time.Hour)
		if h.asked != 0 {
			t.Errorf("%d measurements", h.asked)
		}
		h.want("in an hour")
	})
	inBubble(t, Settings{Hard: map[string]string{}}, func(t *testing.T, h *harness) {
		h.memory(0)
		m := h.run()
		pass(time.Hour)
		h.want("without thresholds")
		if m.Pressure() != (nodestatus.Pressure{}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
	})
}

// A failed observation is logged once, and so is its recovery.
func TestObserveErrorIsLogged(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.run()
		write(t, h.root, map[string]string{"proc/meminfo": "?"})
		pass(time.Hour)
		h.memory(1000)
		pass(time.Hour)
		if h.logged("level=WARN") != 1 || h.logged("can be observed again") != 1 {
			t.Errorf("log:\n%s", h.log.String())
		}
	})
}
