package pressure

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/storage"
)

func (w *world) want(what string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.took()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Memory runs out: the pod that uses most beyond its request is evicted, then the next one once that one is gone, and the condition lasts a while.
func TestMemory(t *testing.T) {
	inWorld(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, w *world) {
		w.pods = []*v1.Pod{podOf("small", 0, "10Mi"), podOf("large", 0, "10Mi"), podOf("within", 0, "1Gi")}
		w.uses("small", 20, 0)
		w.uses("large", 500, 0)
		w.uses("within", 900, 0)
		m := w.run()
		w.want("at first")
		w.memory(99)
		pass(period)
		w.want("short", "changed", "Attempting to reclaim memory", "evict large within 1")
		if m.Pressure() != (nodestatus.Pressure{Memory: true}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
		if _, refused := m.Admit(tolerating(podOf("new", 0, "1"), "x")); refused {
			t.Error("a pod that asks for memory is refused")
		}
		pass(10 * time.Second)
		w.want("while it ends")
		w.set(func() { w.gone["large"] = true })
		pass(endingPeriod)
		w.want("it is gone, and that wasn't enough", "evict small within 1")
		pass(endingFor)
		w.want("in its time and a while")
		pass(endingPeriod)
		w.want("one that doesn't end isn't waited for forever", "evict within within 1")
		w.memory(100)
		pass(endingFor + endingPeriod)
		w.want("enough, and none is left")
		pass(defaultTransition - endingFor - period)
		if m.Pressure() == (nodestatus.Pressure{}) {
			t.Error("the pressure is over too soon")
		}
		pass(period)
		w.want("the pressure is over", "changed")
		families, err := w.registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "kubelet_evictions" {
			t.Fatalf("metrics %v, %v", families, err)
		}
		counted := families[0].GetMetric()[0]
		if got := counted.GetCounter().GetValue(); got != 3 || counted.GetLabel()[0].GetValue() != "memory.available" || m.Pressure() != (nodestatus.Pressure{}) {
			t.Errorf("%v evictions are counted, pressure %+v", got, m.Pressure())
		}
	})
}

// A soft threshold waits, and gives pods time.
func TestSoft(t *testing.T) {
	s := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "200Mi"}, SoftGrace: map[string]string{"memory.available": "30s"},
	}
	inWorld(t, s, func(t *testing.T, w *world) {
		w.cfg.MaxGrace, w.cfg.Gone = 60, nil
		quick, slow := podOf("quick", 0, "1Mi"), podOf("slow", 1, "1Mi")
		quick.Spec.TerminationGracePeriodSeconds = new(int64(5))
		slow.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		w.pods = []*v1.Pod{slow, quick, podOf("any", 2, "1Mi")}
		for _, uid := range []types.UID{"quick", "slow", "any"} {
			w.uses(uid, 10, 0)
		}
		w.memory(199)
		w.run()
		w.want("at once", "changed")
		pass(29 * time.Second)
		w.want("for a while")
		pass(time.Second)
		w.want("after 30 s", "Attempting to reclaim memory", "evict quick within 5")
		pass(period)
		w.want("ten seconds later", "evict slow within 60")
		pass(period)
		w.want("and again", "evict any within 30")
		pass(time.Hour)
		w.want("then there are none")
	})
}

// Below zero, evictionMaxPodGracePeriod leaves pods the time that they have otherwise.
func TestOwnGrace(t *testing.T) {
	s := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "200Mi"}, SoftGrace: map[string]string{"memory.available": "0s"},
	}
	inWorld(t, s, func(t *testing.T, w *world) {
		w.cfg.MaxGrace = -1
		pod := podOf("slow", 1, "1Mi")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		m := New(w.cfg)
		if got := m.grace(Threshold{grace: time.Second}, pod); got != 3600 {
			t.Errorf("it has %d s", got)
		}
		if got := m.grace(Threshold{}, pod); got != 1 {
			t.Errorf("at a hard threshold it has %d s", got)
		}
	})
}

// The first look knows the conditions, and ends nobody; nor does a pod count as evicted that was ending by itself.
func TestBegin(t *testing.T) {
	inWorld(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, w *world) {
		w.cfg.Gone = nil
		w.ending = map[types.UID]bool{"a": true}
		w.pods = []*v1.Pod{podOf("a", 0, "0")}
		w.uses("a", 1, 0)
		w.memory(1)
		m := New(w.cfg)
		m.reader.stat = func(string) (fileSystem, error) { return w.node, nil }
		m.Begin(t.Context())
		w.want("begun", "changed")
		if m.Pressure() != (nodestatus.Pressure{Memory: true}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
		why, refused := m.Admit(podOf("new", 0, "0"))
		if !refused || !why.Passing || why.Message != "The node had condition: [MemoryPressure]. " {
			t.Errorf("a pod that asks for nothing: %v, %+v", refused, why)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { m.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		pass(period - 1)
		w.want("for a period")
		pass(1)
		w.want("a look", "Attempting to reclaim memory", "evict a within 1")
		if families, err := w.registry.Gather(); err != nil || len(families) != 0 {
			t.Errorf("metrics %v, %v", families, err)
		}
	})
}

// What nobody needs goes first, and pods only if that isn't enough.
func TestDisk(t *testing.T) {
	inWorld(t, Settings{Hard: map[string]string{"nodefs.available": "10%"}}, func(t *testing.T, w *world) {
		w.pods = []*v1.Pod{podOf("layers", 0, "0"), podOf("logs", 0, "0")}
		w.disk["layers"] = storage.Usage{Layers: map[string]int64{"main": 900}}
		w.disk["logs"] = storage.Usage{Logs: map[string]int64{"main": 100}, Volumes: map[string]int64{"v": 700}}
		w.run()
		w.set(func() {
			w.node.free = 9 << 30
			w.reclaims = func() { w.node.free += 5 << 30 }
		})
		pass(period)
		w.want("what helps", "changed", "Attempting to reclaim ephemeral-storage", "dead containers", "images")
		pass(period)
		w.want("well again")
		w.set(func() { w.node.free, w.reclaims = 9<<30, func() {} })
		pass(period)
		w.want("what doesn't", "Attempting to reclaim ephemeral-storage", "dead containers", "images", "evict layers within 1")
		if w.told("can't all be removed") != 1 {
			t.Errorf("log:\n%s", w.log.String())
		}
	})
	// Where images have a disk of their own, there is nothing on the node's that nobody needs, and layers aren't on it.
	inWorld(t, Settings{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "10%"}}, func(t *testing.T, w *world) {
		w.pods = []*v1.Pod{podOf("layers", 0, "0"), podOf("logs", 0, "0")}
		w.disk["layers"] = storage.Usage{Layers: map[string]int64{"main": 900}}
		w.disk["logs"] = storage.Usage{Logs: map[string]int64{"main": 100}}
		w.cfg.Gone = nil
		w.image.device = 2
		w.node.free = 1
		w.run()
		w.want("the node's disk", "changed", "Attempting to reclaim ephemeral-storage", "evict logs within 1")
		w.set(func() { w.node.free, w.image.free = 50<<30, 1 })
		pass(period)
		w.want("the images' disk", "dead containers", "images", "evict layers within 1")
	})
}

func TestInodes(t *testing.T) {
	inWorld(t, Settings{Hard: map[string]string{"nodefs.inodesFree": "5%"}}, func(t *testing.T, w *world) {
		w.cfg.Gone, w.cfg.DeadContainers, w.cfg.UnusedImages = nil, nil, nil
		volume := podOf("volume", 0, "0")
		volume.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "m", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
			{Name: "h", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}},
		}
		w.pods = []*v1.Pod{podOf("layer", 0, "0"), podOf("logs", 0, "0"), volume}
		w.uses("layer", 0, 3)
		w.uses("volume", 0, 1)
		write(t, w.root, map[string]string{
			"logs/default_pod-logs_logs/main/0.log": "", "volumes/volume/v/a": "", "volumes/volume/v/b": "", "volumes/volume/v/c": "",
			"volumes/volume/m/1": "", "volumes/volume/m/2": "", "volumes/volume/m/3": "",
		})
		w.node.filesFree = 49
		m := w.run()
		used, err := m.inodes(t.Context(), []*v1.Pod{podOf("logs", 0, "0"), volume}, parts{layers: true, rest: true})
		want := map[types.UID]int64{"layer": 3, "logs": 3, "volume": 5}
		got := map[types.UID]int64{}
		for uid, u := range used {
			got[uid] = u.pod
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, files (-want +got):\n%s", err, diff)
		}
		if left := countFiles(t.Context(), w.root, 2); left != 0 {
			t.Errorf("%d are left to count; want no more than two to be counted", left)
		}
		w.want("files run out", "changed", "Attempting to reclaim inodes", "evict volume within 1")
	})
}

func TestProcesses(t *testing.T) {
	inWorld(t, Settings{Hard: map[string]string{"pid.available": "1k"}}, func(t *testing.T, w *world) {
		w.cfg.Gone = nil
		w.pods = []*v1.Pod{podOf("few", 0, "0"), podOf("many", 0, "0"), podOf("most", 5, "0")}
		for uid, n := range map[string]uint64{"few": 2, "many": 20, "most": 200} {
			w.sandbox = append(w.sandbox, &runtimeapi.PodSandboxStats{
				Attributes: &runtimeapi.PodSandboxAttributes{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}},
				Linux:      &runtimeapi.LinuxPodSandboxStats{Process: &runtimeapi.ProcessUsage{ProcessCount: &runtimeapi.UInt64Value{Value: n}}},
			})
		}
		write(t, w.root, map[string]string{"proc/loadavg": "0 0 0 1/29001 5\n"})
		m := w.run()
		w.want("processes run out", "changed", "Attempting to reclaim pids", "evict many within 1")
		if m.Pressure() != (nodestatus.Pressure{PID: true}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
	})
}

// While there is enough of everything, nobody is asked for anything; and without thresholds, nothing is read.
func TestQuiet(t *testing.T) {
	inWorld(t, Settings{}, func(t *testing.T, w *world) {
		w.pods = []*v1.Pod{podOf("a", 0, "0")}
		w.run()
		pass(time.Hour)
		if w.asked != 0 {
			t.Errorf("%d questions", w.asked)
		}
		w.want("in an hour")
	})
	inWorld(t, Settings{Hard: map[string]string{}}, func(t *testing.T, w *world) {
		w.memory(0)
		m := w.run()
		pass(time.Hour)
		w.want("without thresholds")
		if m.Pressure() != (nodestatus.Pressure{}) {
			t.Errorf("pressure %+v", m.Pressure())
		}
	})
}

// What can't be read is told once, and so is that it can be again.
func TestTroubleIsTold(t *testing.T) {
	inWorld(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, w *world) {
		w.run()
		write(t, w.root, map[string]string{"proc/meminfo": "?"})
		pass(time.Hour)
		w.memory(1000)
		pass(time.Hour)
		if w.told("level=WARN") != 1 || w.told("can be read again") != 1 {
			t.Errorf("log:\n%s", w.log.String())
		}
	})
}
