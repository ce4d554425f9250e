package cgroup

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics are the kubelet's metrics of cgroups.
type metrics struct {
	durations *prometheus.HistogramVec
	// minimum and low are the sums of memory.min and memory.low.
	minimum, low prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		durations: kubeletmetrics.CgroupManagerDuration.Vec(r), minimum: kubeletmetrics.MemoryQoSMin.New(r), low: kubeletmetrics.MemoryQoSLow.New(r),
	}
}

// took records how long an operation on a pod's cgroup took.
func (m *metrics) took(operation string, began time.Time) {
	m.durations.WithLabelValues(operation).Observe(time.Since(began).Seconds())
}

// reserved records the memory that is reserved for pods.
func (m *metrics) reserved(s settings, a asked) {
	if s.reserve && s.v2 {
		m.minimum.Set(float64(a.guaranteedMemory))
		m.low.Set(float64(a.burstableMemory))
	}
}
