package pleg

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Dashboards and alerts use these names of the kubelet.
func TestMetrics(t *testing.T) {
	run(t, nil, func(h *harness) {
		h.relist()
		release := h.runtime.holdList()
		h.relist()
		h.step(4 * time.Second)
		release()
		h.step(0)
		h.runtime.fail(errors.New("no"))
		h.relist()
		if _, err := h.Refresh(t.Context(), "a"); err == nil {
			t.Error("a pod was read although the runtime fails")
		}
		families, err := h.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		// Of the four relists, the third took 4 s, and the last failed.
		type value struct {
			count uint64
			sum   float64
		}
		want := map[string]value{
			"kubelet_pleg_relist_duration_seconds": {4, 4},
			"kubelet_pleg_relist_interval_seconds": {3, 7},
			"kubelet_pleg_last_seen_seconds":       {0, 1002},
			"kubelet_pleg_discard_events":          {0, 0},
			// One pod was read, without success.
			"kubelet_pleg_pod_relist_duration_seconds": {1, 0},
		}
		got := map[string]value{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = value{
				m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum() + m.GetGauge().GetValue() + m.GetCounter().GetValue(),
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(value{})); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	})
}
