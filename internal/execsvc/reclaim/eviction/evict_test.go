package eviction

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A pod with unknown usage is not evicted: no pod while the runtime doesn't answer, and no pod that has just started.
func TestUsageUnknown(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.cfg.Gone = nil
		h.broken, h.pods = true, []*v1.Pod{podOf("high", 9, "0"), podOf("low", 1, "0")}
		h.memory(1)
		h.run()
		h.want("short", "changed", "Attempting to reclaim memory")
		pass(10 * period)
		h.want("then")
		h.set(func() { h.broken = false })
		pass(period)
		h.want("the runtime is back, without stats")
		if h.logged("the usage of some pods is unknown") != 1 {
			t.Errorf("log:\n%s", h.log.String())
		}
		h.set(func() { h.uses("high", 10, 0) })
		pass(period)
		h.want("of one it is known", "evict high within 1")
		pass(period)
		h.want("of the other it still isn't")
	})
}

// An evicted pod gets its full grace period before another one is evicted for the same threshold.
func TestAwaitsGrace(t *testing.T) {
	s := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "200Mi"}, SoftGracePeriod: map[string]string{"memory.available": "30s"},
	}
	inBubble(t, s, func(t *testing.T, h *harness) {
		h.cfg.MaxPodGracePeriod = 300
		for _, uid := range []types.UID{"a", "b"} {
			pod := podOf(uid, 0, "1Mi")
			pod.Spec.TerminationGracePeriodSeconds = new(int64(600))
			h.pods = append(h.pods, pod)
			h.uses(uid, 10, 0)
		}
		h.memory(199)
		h.run()
		pass(30 * time.Second)
		h.want("after 30 s", "changed", "Attempting to reclaim memory", "evict a within 300")
		pass(300 * time.Second)
		h.want("while it ends")
		h.set(func() { h.gone["a"] = true })
		pass(terminationPeriod)
		h.want("it is gone", "evict b within 300")
	})
}

// endingStats ends the manager's context during a measurement.
type endingStats struct {
	Stats
	end func()
}

func (s endingStats) ListContainerStats(ctx context.Context, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	s.end()
	return s.Stats.ListContainerStats(ctx, f)
}

// A manager whose context ends during a measurement evicts no pod.
func TestEndWhileMeasuring(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.pods = []*v1.Pod{podOf("a", 1, "0")}
		h.uses("a", 20, 0)
		ctx, cancel := context.WithCancel(t.Context())
		h.cfg.Stats = endingStats{h, cancel}
		h.memory(1)
		h.runUntil(ctx)
		h.want("short", "changed", "Attempting to reclaim memory")
	})
}
