package worker

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/metrictest"
)

// The steps of a pod's life have the kubelet's names, and the first one comes after the pod's wait for its name.
func TestMetrics(t *testing.T) {
	run(t, func(h *harness) {
		registry := prometheus.NewRegistry()
		h.metrics = newMetrics(registry)
		first, second := newPod("a", "web"), newPod("b", "web")
		second.Spec.Containers = make([]v1.Container, 3)
		h.plan("sync b", func(context.Context) (Result, error) { h.clock.Step(2 * time.Second); return Result{}, nil })
		h.Update(first)
		h.want("sync a")
		h.Update(second)
		h.clock.Step(5 * time.Second)
		h.Remove(first, 30)
		h.wantLoosely(2, "terminate a 30", "clean up a", "purge a", "sync b")
		h.Update(second.DeepCopy())
		h.want("sync b")
		h.Sync("b")
		h.want("sync b")
		metrictest.Want(t, registry, map[string]float64{
			"kubelet_pod_worker_duration_seconds{operation_type=create}":     2,
			"kubelet_pod_worker_duration_seconds{operation_type=update}":     1,
			"kubelet_pod_worker_duration_seconds{operation_type=sync}":       1,
			"kubelet_pod_worker_duration_seconds{operation_type=kill}":       1,
			"kubelet_pod_worker_duration_seconds{operation_type=terminated}": 1,
			"kubelet_pod_worker_start_duration_seconds":                      2,
			"kubelet_containers_per_pod_count":                               2,
			"kubelet_restarted_pods_total":                                   0,
		})
		if took := metrictest.Sum(t, registry, "kubelet_pod_worker_duration_seconds", "operation_type", "create"); took != 2 {
			t.Errorf("the first syncs took %v s; want 2", took)
		}
		if waited := metrictest.Sum(t, registry, "kubelet_pod_worker_start_duration_seconds"); waited != 5 {
			t.Errorf("the pods waited %v s; want 5", waited)
		}
		if containers := metrictest.Sum(t, registry, "kubelet_containers_per_pod_count"); containers != 3 {
			t.Errorf("%v containers; want 3", containers)
		}
	})
}

// A pod that is added again with its UID is counted when it starts again.
func TestRestartedPods(t *testing.T) {
	run(t, func(h *harness) {
		registry := prometheus.NewRegistry()
		h.metrics = newMetrics(registry)
		pod := newPod("a", "web")
		h.Update(pod)
		h.want("sync a")
		h.Remove(pod, 30)
		h.Update(pod)
		h.want("terminate a 30", "clean up a", "purge a", "sync a")
		metrictest.Want(t, registry, map[string]float64{
			"kubelet_restarted_pods_total": 1, "kubelet_pod_worker_duration_seconds{operation_type=create}": 2,
		})
	})
}
