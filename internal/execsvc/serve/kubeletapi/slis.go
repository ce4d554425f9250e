package kubeletapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slis are the metrics of /metrics/slis: the results of the checks of /healthz, as k8s.io/apiserver counts them.
type slis struct {
	registry *prometheus.Registry
	last     *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

func newSLIs() *slis {
	s := &slis{
		registry: prometheus.NewRegistry(),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "The last result of a check: 1 if it was successful.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "Results of a check.",
		}, []string{"name", "type", "status"}),
	}
	started := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds", Help: "Start of the process, in Unix time."})
	started.Set(float64(time.Now().Unix()))
	s.registry.MustRegister(s.last, s.total, started)
	return s
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
