package eviction

import (
	"fmt"
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/metrictest"
)

// While a pod terminates for a soft threshold, within its grace period, no other pod is evicted for that threshold;
// but one is once the hard threshold is met, and one for another resource.
func TestSoftEvictionDoesNotHideTheHardThreshold(t *testing.T) {
	s := Settings{
		Hard: map[string]string{"memory.available": "100Mi"}, Soft: map[string]string{"memory.available": "500Mi", "nodefs.available": "20%"},
		SoftGracePeriod: map[string]string{"memory.available": "10s", "nodefs.available": "10s"},
	}
	inBubble(t, s, func(t *testing.T, h *harness) {
		h.cfg.MaxPodGracePeriod, h.cfg.RemoveExitedContainers, h.cfg.RemoveUnusedImages = 600, nil, nil
		for _, uid := range []types.UID{"a", "b", "c", "d"} {
			pod := podOf(uid, 0, "0")
			pod.Spec.TerminationGracePeriodSeconds = new(int64(600))
			h.pods = append(h.pods, pod)
		}
		h.uses("a", 1000, 0)
		h.uses("b", 900, 0)
		h.uses("c", 10, 0)
		h.disk["c"] = files(diskusage.Usage{Logs: figures("main", 100, 0)})
		h.memory(400)
		h.run()
		pass(period)
		h.want("the soft threshold", "changed", "Attempting to reclaim memory", "evict a within 600")
		pass(time.Minute)
		h.want("while it ends")
		h.set(func() { h.node.free = 15 << 30 })
		pass(3 * period)
		h.want("another resource", "changed", "evict c within 600")
		h.memory(5)
		pass(period)
		h.want("the hard threshold", "evict b within 1")
		pass(terminationSlack)
		h.want("while that ends")
		h.set(func() { h.gone["b"] = true })
		pass(terminationPeriod)
		h.want("it was not enough, and nothing is known of the last one")
	})
}

// A pod that terminates by itself is awaited once, and doesn't keep others from being evicted if it never ends.
func TestPodTerminatesByItself(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.stays = true
		h.ending = map[types.UID]bool{"large": true}
		h.pods = []*v1.Pod{podOf("small", 0, "0"), podOf("large", 0, "0")}
		h.uses("small", 20, 0)
		h.uses("large", 500, 0)
		h.memory(99)
		h.run()
		h.want("short", "changed", "Attempting to reclaim memory", "evict large within 1")
		pass(terminationSlack)
		h.want("while it ends")
		pass(terminationPeriod)
		h.want("it doesn't", "evict large within 1", "evict small within 1")
		metrictest.Want(t, h.registry, map[string]float64{"kubelet_evictions": 1})
	})
}

// While a pod with an unlimited grace period terminates, no other pod is evicted for the same soft threshold.
func TestAwaitsTheLongestGrace(t *testing.T) {
	s := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "200Mi"}, SoftGracePeriod: map[string]string{"memory.available": "30s"},
	}
	inBubble(t, s, func(t *testing.T, h *harness) {
		h.cfg.MaxPodGracePeriod = -1
		for _, uid := range []types.UID{"a", "b"} {
			pod := podOf(uid, 0, "1Mi")
			pod.Spec.TerminationGracePeriodSeconds = new(int64(math.MaxInt64))
			h.pods = append(h.pods, pod)
			h.uses(uid, 10, 0)
		}
		h.memory(199)
		h.run()
		pass(30 * time.Second)
		h.want("after 30 s", "changed", "Attempting to reclaim memory", fmt.Sprintf("evict a within %d", int64(math.MaxInt64)))
		pass(10 * time.Minute)
		h.want("while it ends")
	})
}
