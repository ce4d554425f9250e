package nodecert

import (
	"crypto/tls"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clientMetrics are the metrics of the client certificate, with the kubelet's names.
type clientMetrics struct{ failures prometheus.Counter }

func newClientMetrics(r prometheus.Registerer, current func() *tls.Certificate) clientMetrics {
	m := clientMetrics{failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_certificate_manager_client_expiration_renew_errors", Help: "Failed attempts to get a client certificate.",
	})}
	if r != nil {
		r.MustRegister(m.failures, timeLeft("kubelet_certificate_manager_client_ttl_seconds", "client", current))
	}
	return m
}

// servingMetrics are the metrics of the serving certificate, with the kubelet's names.
type servingMetrics struct {
	failures prometheus.Counter
	ages     prometheus.Histogram
}

func newServingMetrics(r prometheus.Registerer, current func() *tls.Certificate) servingMetrics {
	const minute, hour, day = 60., 3600., 24 * 3600.
	m := servingMetrics{
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_server_expiration_renew_errors", Help: "Failed attempts to get a serving certificate.",
		}),
		ages: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_certificate_manager_server_rotation_seconds", Help: "How old serving certificates were when they were replaced.",
			Buckets: []float64{minute, hour, 4 * hour, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 4 * 360 * day},
		}),
	}
	if r != nil {
		r.MustRegister(m.failures, m.ages, timeLeft("kubelet_certificate_manager_server_ttl_seconds", "serving", current))
	}
	return m
}

// timeLeft is the time until a certificate expires, negative if it has; infinite if there is none.
func timeLeft(name, kind string, current func() *tls.Certificate) prometheus.Collector {
	opts := prometheus.GaugeOpts{Name: name, Help: "Seconds until the " + kind + " certificate expires; infinite if there is none."}
	return prometheus.NewGaugeFunc(opts, func() float64 {
		if c := current(); c != nil {
			return math.Trunc(time.Until(c.Leaf.NotAfter).Seconds())
		}
		return math.Inf(1)
	})
}
