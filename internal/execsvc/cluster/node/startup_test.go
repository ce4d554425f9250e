package node

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/metrictest"
)

// A new Node is measured from the boot until it is ready; one that exists isn't.
func TestStartupMetrics(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		registry := prometheus.NewRegistry()
		s := newStartup(40*time.Second, registry)
		s.ready()
		time.Sleep(2 * time.Second)
		s.attempts()
		time.Sleep(3 * time.Second)
		s.attempts()
		s.created()
		time.Sleep(5 * time.Second)
		s.ready()
		time.Sleep(time.Minute)
		s.created()
		s.ready()
		metrictest.Want(t, registry, map[string]float64{
			"kubelet_node_startup_pre_kubelet_duration_seconds": 40, "kubelet_node_startup_pre_registration_duration_seconds": 2,
			"kubelet_node_startup_registration_duration_seconds": 3, "kubelet_node_startup_post_registration_duration_seconds": 5,
			"kubelet_node_startup_duration_seconds": 50,
		})
	})
}

func TestStartupOfNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first, again := prometheus.NewRegistry(), prometheus.NewRegistry()
		w.cfg.Metrics, w.cfg.Uptime = first, time.Minute
		w.run(t)
		w.cfg.Metrics = again
		w.run(t)
		if got := metrictest.Value(t, first, "kubelet_node_startup_duration_seconds"); got < 60 {
			t.Errorf("the new Node was ready %v s after the boot; want 60 at least", got)
		}
		metrictest.Want(t, again, map[string]float64{"kubelet_node_startup_duration_seconds": 0})
	})
}
