package eviction

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
)

// A file system that hangs, or is gone, stops no evictions for the others: from nodefs those files are removed, and
// those pods evicted, as while it answered. The number of goroutines that wait for it is bounded.
func TestHungDisk(t *testing.T) {
	s := Settings{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "10%", "containerfs.available": "10%", "memory.available": "100Mi"}}
	for _, path := range []string{"/images", "/containers"} {
		t.Run(path, func(t *testing.T) {
			inBubble(t, Settings{Hard: s.Hard}, func(t *testing.T, h *harness) {
				h.pods = []*v1.Pod{podOf("logs", 0, "0"), podOf("memory", 0, "0"), podOf("last", 0, "0")}
				h.disk["logs"] = files(diskusage.Usage{Logs: figures("main", 900, 0)})
				h.uses("memory", 500, 0)
				h.cfg.Gone = nil
				h.image.device = 2
				h.container = &fileSystem{3, 100 << 30, 50 << 30, 1000, 500}
				h.run()
				hung := make(chan struct{})
				defer close(hung)
				h.set(func() { h.hung = map[string]chan struct{}{path: hung} })
				pass(2 * period)
				h.want("it hangs")
				h.memory(99)
				pass(2 * period)
				h.want("short of memory", "changed", "Attempting to reclaim memory", "evict memory within 1")
				h.memory(1000)
				pass(2 * period)
				h.want("enough of it")
				h.set(func() { h.node.free = 1 })
				pass(2 * period)
				h.want("nodefs is full", "changed", "Attempting to reclaim ephemeral-storage", "evict logs within 1")
				pass(100 * period)
				if h.waiting > 4 {
					t.Errorf("%d goroutines wait for it", h.waiting)
				}
				if h.logged("its file system doesn't answer") != 1 {
					t.Errorf("the log is\n%s", &h.log)
				}
			})
		})
	}
}

// A runtime that doesn't say where its images are holds up the evictions for memory by some seconds only.
func TestHungRuntime(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("large", 0, "0")}
		h.uses("large", 500, 0)
		h.cfg.Disks = func(ctx context.Context) (Disks, error) {
			<-ctx.Done()
			return Disks{}, fmt.Errorf("it hangs: %w", ctx.Err())
		}
		h.memory(99)
		m := h.run()
		pass(10 * time.Second)
		h.want("short of memory", "changed", "Attempting to reclaim memory", "evict large within 1")
		if m.Pressure() != (nodestatus.Pressure{Memory: true}) {
			t.Errorf("the conditions are %+v", m.Pressure())
		}
	})
}

// A removal that hangs is given up: the Manager goes on with what remains.
func TestHungRemoval(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"nodefs.available": "10%", "memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("logs", 0, "0"), podOf("memory", 0, "0")}
		h.disk["logs"] = files(diskusage.Usage{Logs: figures("main", 900, 0)})
		h.uses("memory", 500, 0)
		h.cfg.Gone = nil
		hung := make(chan struct{})
		defer close(hung)
		h.cfg.RemoveUnusedImages = func(context.Context) error { <-hung; return nil }
		h.node.free = 1
		h.run()
		h.want("nodefs is full", "changed", "Attempting to reclaim ephemeral-storage", "exited containers")
		h.memory(99)
		pass(2 * time.Minute)
		h.want("the images aren't removed in time", "evict logs within 1")
		pass(period)
		h.want("short of memory", "changed", "evict memory within 1")
	})
}
