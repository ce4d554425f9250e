package volume

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/metrictest"
)

// Volumes are counted as desired from the first attempt, and as set up from the first success until the pod's
// volumes are gone.
func TestMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m := newMetrics(r)
	want := func(desired, set float64) {
		t.Helper()
		metrictest.Want(t, r, map[string]float64{
			"volume_manager_total_volumes{state=desired_state_of_world}": desired, "volume_manager_total_volumes{state=actual_state_of_world}": set,
		})
	}
	const plugin = "kubernetes.io/empty-dir"
	want(0, 0)
	m.setUp(&Volume{UID: "a", Name: "x"}, plugin, time.Second, errors.New("no"))
	want(1, 0)
	m.setUp(&Volume{UID: "a", Name: "x"}, plugin, time.Second, nil)
	m.setUp(&Volume{UID: "a", Name: "y"}, plugin, time.Second, nil)
	m.setUp(&Volume{UID: "a", Name: "y"}, plugin, time.Second, errors.New("no"))
	want(2, 2)
	m.setUp(&Volume{UID: "b", Name: "x"}, plugin, time.Second, nil)
	m.tornDown("a")
	want(1, 1)
	m.observe(plugin, opUnmount, time.Second, nil)
	metrictest.Want(t, r, map[string]float64{
		"storage_operation_duration_seconds{operation_name=volume_mount,status=success,migrated=false}":  3,
		"storage_operation_duration_seconds{operation_name=volume_mount,status=fail-unknown}":            2,
		"storage_operation_duration_seconds{operation_name=volume_unmount,volume_plugin=" + plugin + "}": 1,
	})
}
