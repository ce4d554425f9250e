package pleg

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics are the metrics of the kubelet's PLEG.
type metrics struct {
	duration, interval, podDuration prometheus.Histogram
	lastSeen                        prometheus.Gauge
	// last is the start of the last relist. Only the relisting goroutine uses it.
	last time.Time
}

// newMetrics returns metrics at zero, registered with r unless that is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	kubeletmetrics.PLEGDiscardEvents.New(r) // No event is discarded.
	return &metrics{
		duration: kubeletmetrics.PLEGRelistDuration.New(r), interval: kubeletmetrics.PLEGRelistInterval.New(r),
		podDuration: kubeletmetrics.PLEGPodRelistDuration.New(r), lastSeen: kubeletmetrics.PLEGLastSeen.New(r),
	}
}

// relisted counts a relist, whatever its result.
func (m *metrics) relisted(start, end time.Time) {
	m.duration.Observe(end.Sub(start).Seconds())
	if !m.last.IsZero() {
		m.interval.Observe(start.Sub(m.last).Seconds())
	}
	m.last = start
}
