package plugins

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/metrictest"
)

// TestMetrics: plugin_manager_total_plugins has each socket that was found, and each one that is registered, as the kubelet's. Names
// that aren't UTF-8 don't break the scrape.
func TestMetrics(t *testing.T) {
	n := newNode(t, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{n.Manager})
	n.run(t)
	n.start(t, "good.sock", n.info(t, CSIPlugin, "good.csi", "good.sock", "1.0.0")).accepted(t)
	for _, name := range []string{"\xff.sock", "\xfe.sock"} {
		n.start(t, name, n.info(t, "Unknown", "x", "x.sock", "1.0.0")).refused(t, "supported")
	}
	want := map[string]float64{
		"plugin_manager_total_plugins{state=desired_state_of_world,socket_path=" + filepath.Join(n.root, "good.sock") + "}": 1,
		"plugin_manager_total_plugins{state=actual_state_of_world,socket_path=" + filepath.Join(n.root, "good.sock") + "}":  1,
		"plugin_manager_total_plugins{state=desired_state_of_world,socket_path=" + n.root + "/\uFFFD.sock}":                 2,
	}
	metrictest.Want(t, registry, want)
	if n := metrictest.Count(t, registry, "plugin_manager_total_plugins"); n != len(want) {
		t.Errorf("%d series; want %d", n, len(want))
	}
}
