package kubeletapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// slis are the metrics of /metrics/slis: the results of the checks of /healthz, as k8s.io/apiserver counts them.
type slis struct {
	registry *prometheus.Registry
	last     *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

func newSLIs() *slis {
	r := prometheus.NewRegistry()
	kubeletmetrics.ProcessStart.New(r).Set(float64(time.Now().Unix()))
	return &slis{registry: r, last: kubeletmetrics.Healthcheck.Vec(r), total: kubeletmetrics.Healthchecks.Vec(r)}
}

// checked counts the result of a check of /healthz.
func (s *slis) checked(name string, err error) {
	value, status := 1.0, "success"
	if err != nil {
		value, status = 0, "error"
	}
	s.last.WithLabelValues(name, "healthz").Set(value)
	s.total.WithLabelValues(name, "healthz", status).Inc()
}
