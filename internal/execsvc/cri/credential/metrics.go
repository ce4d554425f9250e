package credential

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics are the kubelet's metrics of credential providers. The names of plugins come from the node's configuration.
type metrics struct {
	durations *prometheus.HistogramVec
	errors    *prometheus.CounterVec
	// config is 1 for the hash of the configuration.
	config *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		durations: kubeletmetrics.CredentialProviderDuration.Vec(r), errors: kubeletmetrics.CredentialProviderErrors.Vec(r),
		config: kubeletmetrics.CredentialProviderConfigInfo.Vec(r),
	}
}

// ran records a run of a plugin.
func (m *metrics) ran(plugin string, began time.Time, err error) {
	m.durations.WithLabelValues(plugin).Observe(time.Since(began).Seconds())
	if err != nil {
		m.errors.WithLabelValues(plugin).Inc()
	}
}
