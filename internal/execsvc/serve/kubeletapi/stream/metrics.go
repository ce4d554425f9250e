package stream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics have the kubelet's names and labels. The Server measures the number and duration of requests.
type metrics struct {
	// websockets counts requests that are translated to the runtime's protocol, by endpoint.
	websockets *prometheus.CounterVec
}

// newMetrics registers them, unless there is no registry.
func newMetrics(registry prometheus.Registerer) *metrics {
	return &metrics{websockets: kubeletmetrics.WebSocketRequests.Vec(registry)}
}
