package eviction

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/machine/memcg"
)

// kernel is a kernel's notifications.
type kernel struct {
	mu    sync.Mutex
	armed [][]memcg.Threshold
	err   error
	ready chan struct{}
}

func (k *kernel) Arm(all []memcg.Threshold) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = append(k.armed, all)
	return k.err
}

func (k *kernel) Ready() <-chan struct{} { return k.ready }

// took returns the thresholds that were armed since the last call.
func (k *kernel) took() [][]memcg.Threshold {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.armed
	k.armed = nil
	return out
}

// TestUsageAt has the facts of the kubelet's test of UpdateThreshold first.
func TestUsageAt(t *testing.T) {
	const gi = 1 << 30
	for _, c := range []struct{ used, available, least, want int64 }{
		{2 * gi, 3 * gi, 1 * gi, 4 * gi},
		{3 * gi, 4 * gi, 1 * gi, 6 * gi},
		// Below the threshold already, it is what would have to be freed.
		{20 * gi, 1 * gi, 3 * gi, 18 * gi},
	} {
		if got := usageAt(c.used, c.available, c.least); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// The kernel's thresholds are armed for each threshold of memory, and follow the usage and the file cache.
func TestNotifications(t *testing.T) {
	s := Settings{
		Hard: map[string]string{"memory.available": "1Mi", "nodefs.available": "1%"}, Soft: map[string]string{"memory.available": "2Mi"},
		SoftGracePeriod: map[string]string{"memory.available": "1m"},
	}
	thresholds, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	v1Files := map[string]string{
		cgroupV1 + "/memory.usage_in_bytes": "3145728\n", cgroupV1 + "/k/memory.usage_in_bytes": "1048576\n",
		cgroupV1 + "/k/memory.limit_in_bytes": "3145728\n", cgroupV1 + "/k/memory.stat": "total_inactive_file 524288\n",
	}
	write(t, root, machine())
	write(t, root, v1Files)
	write(t, root, map[string]string{"proc/meminfo": "MemTotal: 8192 kB\nMemFree: 4096 kB\nInactive(file): 1024 kB\n"})
	r := reader{root: root, dir: "/root", podsCgroup: "/k", waits: newWaits(), stat: disks(map[string]fileSystem{"/root": {1, 4 << 30, 1 << 30, 100, 50}})}
	// at is a threshold of a cgroup in the hierarchy of memory.
	at := func(cgroup string, bytes int64) memcg.Threshold {
		return memcg.Threshold{Dir: filepath.Join(root, cgroupV1, cgroup), Bytes: bytes}
	}
	for _, c := range []struct {
		files map[string]string
		want  []memcg.Threshold
	}{
		{nil, []memcg.Threshold{at("", 7<<20), at("", 6<<20), at("/k", 2<<20+524288)}},
		{map[string]string{cgroupV1 + "/k/memory.stat": "total_inactive_file 0\n"}, []memcg.Threshold{at("", 7<<20), at("", 6<<20), at("/k", 2<<20)}},
		{map[string]string{cgroupV1 + "/k/memory.limit_in_bytes": "9223372036854771712\n"}, []memcg.Threshold{at("", 7<<20), at("", 6<<20)}},
		{map[string]string{"proc/meminfo": "?"}, nil},
	} {
		write(t, root, c.files)
		seen, _, _ := r.observe(t.Context())
		got, err := r.notifications(thresholds, seen)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%v, %v (-want +got):\n%s", c.files, err, diff)
		}
	}
}

// When the kernel reports that memory is short, a pod is evicted at once, and the thresholds are armed again. However
// often the kernel reports, there is an observation a second at most.
func TestKernelReports(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		k := &kernel{ready: make(chan struct{}, 1)}
		h.cfg.Notifier = k
		write(t, h.root, map[string]string{cgroupV1 + "/memory.usage_in_bytes": "1073741824\n"})
		h.pods = []*v1.Pod{podOf("a", 0, "0"), podOf("b", 0, "0")}
		h.uses("a", 20, 0)
		h.uses("b", 10, 0)
		h.run()
		pass(2 * time.Second)
		if armed := k.took(); len(armed) != 1 || armed[0][0].Bytes != 1924<<20 {
			t.Errorf("armed: %v", armed)
		}
		h.memory(99)
		k.ready <- struct{}{}
		h.want("at once", "changed", "Attempting to reclaim memory", "evict a within 1")
		if armed := k.took(); len(armed) != 1 || armed[0][0].Bytes != 1023<<20 {
			t.Errorf("armed then: %v", armed)
		}
		h.memory(1000)
		h.set(func() { h.gone["a"] = true })
		pass(2 * time.Second)
		k.took()
		stop := time.Now().Add(20 * time.Second)
		for time.Now().Before(stop) {
			select {
			case k.ready <- struct{}{}:
			default:
			}
			pass(10 * time.Millisecond)
		}
		if n := len(k.took()); n < 15 || n > 21 {
			t.Errorf("%d observations in 20 s of reports", n)
		}
		h.want("with enough memory")
	})
}

// Without reports by the kernel, memory is still observed each ten seconds; that is logged once.
func TestNoKernelReports(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		k := &kernel{ready: make(chan struct{}, 1), err: errors.New("no such file")}
		h.cfg.Notifier = k
		write(t, h.root, map[string]string{cgroupV1 + "/memory.usage_in_bytes": "1073741824\n"})
		h.pods = []*v1.Pod{podOf("a", 0, "0")}
		h.uses("a", 20, 0)
		h.run()
		pass(time.Hour)
		if n := h.logged("the kernel won't report"); n != 1 || len(k.took()) < 300 {
			t.Errorf("%d messages:\n%s", n, h.log.String())
		}
		h.memory(1)
		pass(period)
		h.want("ten seconds later", "changed", "Attempting to reclaim memory", "evict a within 1")
	})
}
