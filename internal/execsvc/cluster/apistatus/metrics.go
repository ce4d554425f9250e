package apistatus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	duration prometheus.Histogram
	patches  *prometheus.CounterVec
}

// newMetrics registers the metrics, unless r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_pod_status_sync_duration_seconds",
			Help:    "Time from the first change of a pod's status until the API server has taken it, with what changed meanwhile.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60},
		}),
		patches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podexecd_pod_status_patches_total",
			Help: "Patches of pods' statuses that were sent to the API server, by what became of them.",
		}, []string{"result"}),
	}
	if r != nil {
		r.MustRegister(m.duration, m.patches)
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
