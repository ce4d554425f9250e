package pleg

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the kubelet's PLEG, with its names.
type metrics struct {
	duration, interval prometheus.Histogram
	lastSeen           prometheus.Gauge
	// last is the start of the last relist. Only the relisting goroutine uses it.
	last time.Time
}

// newMetrics returns metrics at zero, registered with r unless that is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.DefBuckets})
	}
	m := &metrics{
		duration: histogram("kubelet_pleg_relist_duration_seconds", "How long it takes to list all pods."),
		interval: histogram("kubelet_pleg_relist_interval_seconds", "Time between the beginnings of two relists."),
		lastSeen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_pleg_last_seen_seconds", Help: "Unix time of the last relist that went well.",
		}),
	}
	discarded := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_pleg_discard_events", Help: "Events that were discarded. Always 0: none are.",
	})
	if r != nil {
		r.MustRegister(m.duration, m.interval, m.lastSeen, discarded)
	}
	return m
}

// relisted counts a relist, whatever its result.
func (m *metrics) relisted(start, end time.Time) {
	m.duration.Observe(end.Sub(start).Seconds())
	if !m.last.IsZero() {
		m.interval.Observe(start.Sub(m.last).Seconds())
	}
	m.last = start
}
