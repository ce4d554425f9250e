package nodecert

import (
	"crypto/tls"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// clientMetrics are the metrics of the client certificate, with the kubelet's names.
type clientMetrics struct{ failures prometheus.Counter }

func newClientMetrics(r prometheus.Registerer, current func() *tls.Certificate) clientMetrics {
	kubeletmetrics.ClientTTL.Func(r, func() float64 { return timeLeft(current()) })
	return clientMetrics{failures: kubeletmetrics.ClientRenewErrors.New(r)}
}

// servingMetrics are the metrics of the serving certificate, with the kubelet's names.
type servingMetrics struct {
	failures prometheus.Counter
	ages     prometheus.Histogram
}

func newServingMetrics(r prometheus.Registerer, current func() *tls.Certificate) servingMetrics {
	kubeletmetrics.ServerTTL.Func(r, func() float64 { return timeLeft(current()) })
	return servingMetrics{failures: kubeletmetrics.ServerRenewErrors.New(r), ages: kubeletmetrics.ServerRotation.New(r)}
}

// timeLeft is the time until a certificate expires, negative if it has; infinite if there is none.
func timeLeft(c *tls.Certificate) float64 {
	if c == nil {
		return math.Inf(1)
	}
	return math.Trunc(time.Until(c.Leaf.NotAfter).Seconds())
}
