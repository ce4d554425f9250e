package apistatus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

type metrics struct {
	duration prometheus.Histogram
	patches  *prometheus.CounterVec
}

// newMetrics registers the metrics, unless r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		duration: kubeletmetrics.PodStatusSyncDuration.New(r),
		patches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podexecd_pod_status_patches_total",
			Help: "Patches of pods' statuses that were sent to the API server, by what became of them.",
		}, []string{"result"}),
	}
	if r != nil {
		r.MustRegister(m.patches)
	}
	for _, result := range outcomes {
		m.patches.WithLabelValues(string(result))
	}
	return m
}

// patched counts a patch of a change that has waited since then.
func (m *metrics) patched(o outcome, since time.Time) {
	m.patches.WithLabelValues(string(o)).Inc()
	if o == taken && !since.IsZero() {
		m.duration.Observe(time.Since(since).Seconds())
	}
}
