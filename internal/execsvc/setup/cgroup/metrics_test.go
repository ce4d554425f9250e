package cgroup

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/metrictest"
)

// Each operation on a pod's cgroup is measured: it is made and set, changed, and removed.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newManager(t, Config{Root: newRoot(t), Metrics: registry})
	p := podOf("a", same("cpu", "100m"))
	for range 2 {
		if err := m.Ensure(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Ensure(podOf("a", same("cpu", "200m"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Remove(inTime(t), p.UID); err != nil {
			t.Fatal(err)
		}
	}
	const name = "kubelet_cgroup_manager_duration_seconds"
	metrictest.Want(t, registry, map[string]float64{
		name + "{operation_type=create}": 1, name + "{operation_type=update}": 2, name + "{operation_type=destroy}": 1,
	})
}

// The sums are those that kubepods and the class of burstable pods have, and zero if nothing is reserved.
func TestReservedMemory(t *testing.T) {
	for _, s := range []settings{{reserve: true, v2: true}, {v2: true}, {reserve: true}} {
		registry := prometheus.NewRegistry()
		newMetrics(registry).reserved(s, asked{guaranteedMemory: 10, burstableMemory: 5})
		want := map[string]float64{"kubelet_memory_qos_node_memory_min_bytes": 0, "kubelet_memory_qos_node_memory_low_bytes": 0}
		if s.reserve && s.v2 {
			want = map[string]float64{"kubelet_memory_qos_node_memory_min_bytes": 10, "kubelet_memory_qos_node_memory_low_bytes": 5}
		}
		metrictest.Want(t, registry, want)
	}
}
