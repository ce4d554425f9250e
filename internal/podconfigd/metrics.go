package podconfigd

import "github.com/prometheus/client_golang/prometheus"

// reloadMetrics count how the configuration was read while podconfigd runs.
type reloadMetrics struct {
	total, errors prometheus.Counter
	lastSuccess   prometheus.Gauge
}

func newReloadMetrics() *reloadMetrics {
	return &reloadMetrics{
		total: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podstream_config_reload_total", Help: "Times that the configuration was read again.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podstream_config_reload_errors_total", Help: "Times that it was no good, so that the former one stayed in force.",
		}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "podstream_config_reload_last_success_timestamp_seconds",
			Help: "When a good configuration was read last, at the start included.",
		}),
	}
}

// succeeded notes that a configuration is in force.
func (m *reloadMetrics) succeeded() { m.lastSuccess.SetToCurrentTime() }

// Describe is part of prometheus.Collector.
func (m *reloadMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect is part of prometheus.Collector.
func (m *reloadMetrics) Collect(ch chan<- prometheus.Metric) {
	m.total.Collect(ch)
	m.errors.Collect(ch)
	m.lastSuccess.Collect(ch)
}
