package probe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics have the kubelet's names and labels.
type metrics struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// newMetrics registers them, unless registry is nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	return &metrics{total: kubeletmetrics.Probes.Vec(registry), seconds: kubeletmetrics.ProbeDuration.Vec(registry)}
}

// asked counts one probe.
func (m *metrics) asked(p *probe, outcome handler.Outcome, err error, took time.Duration) {
	pod, result := p.container.pod.spec, "failed"
	switch {
	case err != nil:
		result = "unknown"
	case outcome != handler.Failure:
		result = "successful"
		m.seconds.WithLabelValues(p.state.kind.String(), p.container.name, pod.Name, pod.Namespace).Observe(took.Seconds())
	}
	m.total.WithLabelValues(p.state.kind.String(), result, p.container.name, pod.Name, pod.Namespace, string(pod.UID)).Inc()
}

// drop removes the probe's series, so that they don't accumulate as pods come and go.
func (m *metrics) drop(p *probe) {
	pod := p.container.pod.spec
	for _, result := range []string{"successful", "failed", "unknown"} {
		m.total.DeleteLabelValues(p.state.kind.String(), result, p.container.name, pod.Name, pod.Namespace, string(pod.UID))
	}
	m.seconds.DeleteLabelValues(p.state.kind.String(), p.container.name, pod.Name, pod.Namespace)
}
