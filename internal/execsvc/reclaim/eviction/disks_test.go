package eviction

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/localstorage"
	"github.com/podstream/podstream/internal/metrictest"
)

// TestLayout: what is removed from a signal's file system, and which files of pods count there. The first three layouts
// have the kubelet's tables (buildSignalToNodeReclaimFuncs and buildSignalToRankFunc).
func TestLayout(t *testing.T) {
	all, pods, runtime := contents{true, true, true}, contents{podFiles: true}, contents{writableLayers: true, images: true}
	for name, c := range map[string]struct {
		disks                 layout
		node, image, writable contents
		own                   bool
	}{
		"one file system":            {layout{1, 1, 1}, all, all, all, false},
		"a dedicated image fs":       {layout{1, 2, 2}, pods, runtime, runtime, false},
		"images apart":               {layout{1, 2, 1}, contents{true, true, false}, contents{images: true}, contents{true, true, false}, false},
		"writable layers apart":      {layout{1, 1, 2}, contents{true, false, true}, contents{true, false, true}, contents{writableLayers: true}, true},
		"all of them apart":          {layout{1, 2, 3}, pods, contents{images: true}, contents{writableLayers: true}, true},
		"nothing is known of a disk": {layout{}, all, all, all, false},
	} {
		got := map[Signal]contents{}
		for signal := range signals {
			if signals[signal].condition == v1.NodeDiskPressure {
				got[signal] = c.disks.on(signal)
			}
		}
		want := map[Signal]contents{
			NodeFsAvailable: c.node, NodeFsInodesFree: c.node, ImageFsAvailable: c.image, ImageFsInodesFree: c.image,
			ContainerFsAvailable: c.writable, ContainerFsInodesFree: c.writable,
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(contents{})); diff != "" || c.disks.ownContainerFs() != c.own {
			t.Errorf("%s: own %v (-want +got):\n%s", name, c.disks.ownContainerFs(), diff)
		}
	}
}

// With images on a disk of their own, exited containers free nodefs and unused images free imagefs. A pod is evicted
// from nodefs for all its files, and from imagefs by its priority, since no file of a pod is there: its image is then
// unused.
func TestImagesApart(t *testing.T) {
	s := Settings{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "10%"}}
	inBubble(t, s, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("large", 9, "0"), podOf("logs", 9, "0"), podOf("low", 1, "0")}
		h.disk["large"] = files(diskusage.Usage{Logs: figures("main", 100, 0)})
		large := h.disk["large"]
		large.Layers = figures("main", 900, 0)
		h.disk["large"] = large
		h.disk["logs"] = files(diskusage.Usage{Logs: figures("main", 500, 0)})
		h.cfg.Gone = nil
		h.image.device = 2
		h.container = &h.node
		h.node.free = 1
		h.run()
		h.want("nodefs", "changed", "Attempting to reclaim ephemeral-storage", "exited containers", "evict large within 1")
		h.set(func() { h.node.free, h.image.free = 50<<30, 1 })
		pass(period)
		h.want("imagefs", "images", "evict low within 1")
	})
}

// Writable layers on a disk of their own have the thresholds of nodefs. Only what is there is removed, and counts.
func TestLayersApart(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"nodefs.available": "10%", "nodefs.inodesFree": "5%"}}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("logs", 0, "0"), podOf("layers", 0, "0"), podOf("files", 0, "0")}
		h.disk["logs"] = files(diskusage.Usage{Logs: figures("main", 5000, 5000)})
		h.disk["layers"] = localstorage.Usage{Layers: figures("main", 900, 1)}
		h.disk["files"] = localstorage.Usage{Layers: figures("main", 1, 900)}
		h.cfg.Gone = nil
		h.container = &fileSystem{3, 100 << 30, 11 << 30, 1000, 51}
		h.run()
		h.want("above the thresholds")
		h.set(func() { h.container.free = 9 << 30 })
		pass(period)
		h.want("containerfs is full", "changed", "Attempting to reclaim ephemeral-storage", "exited containers", "evict layers within 1")
		h.set(func() { h.container.free, h.container.filesFree = 50<<30, 49 })
		pass(period)
		h.want("without inodes", "exited containers", "evict files within 1")
		h.set(func() { h.container.filesFree, h.node.free = 500, 1 })
		pass(period)
		h.want("nodefs is full: no exited container is there", "images", "evict logs within 1")
		metrictest.Want(t, h.registry, map[string]float64{
			"kubelet_evictions{eviction_signal=containerfs.available}": 1, "kubelet_evictions{eviction_signal=containerfs.inodesFree}": 1,
			"kubelet_evictions{eviction_signal=nodefs.available}": 1, "kubelet_evictions": 3,
		})
	})
}

// TestPreviousPods: the file system of older pods counts as nodefs while it has the smaller part left, for each signal by itself;
// after those pods, and on the same file system, it doesn't count.
func TestPreviousPods(t *testing.T) {
	node := fileSystem{1, 100, 50, 1000, 500}
	for name, c := range map[string]struct {
		previous    fileSystem
		err         error
		free, files int64
		fails       bool
	}{
		"more room":            {previous: fileSystem{2, 10, 6, 100, 60}, free: 50, files: 500},
		"less room":            {previous: fileSystem{2, 1000, 100, 5000, 600}, free: 100, files: 600},
		"fewer files only":     {previous: fileSystem{2, 1000, 900, 5000, 1}, free: 50, files: 1},
		"the same file system": {previous: fileSystem{1, 100, 1, 1000, 1}, free: 50, files: 500},
		"no older pods":        {err: os.ErrNotExist, free: 50, files: 500},
		"it can't be read":     {err: os.ErrPermission, free: 50, files: 500, fails: true},
	} {
		r := reader{dir: "/k", previous: "/r/pods", waits: nodefs.New(nodefs.Config{Timeout: time.Minute}), stat: func(path string) (fileSystem, error) {
			if path == "/r/pods" {
				return c.previous, c.err
			}
			return node, nil
		}}
		seen := observations{}
		_, err := r.fileSystems(t.Context(), seen)
		free, files := seen[NodeFsAvailable].available, seen[NodeFsInodesFree].available
		if (err != nil) != c.fails || free.Value() != c.free || files.Value() != c.files {
			t.Errorf("%s: %d bytes and %d files are free, %v; want %d and %d", name, free.Value(), files.Value(), err, c.free, c.files)
		}
	}
}
