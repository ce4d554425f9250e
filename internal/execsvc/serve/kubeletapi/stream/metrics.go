package stream

import "github.com/prometheus/client_golang/prometheus"

// metrics have the kubelet's names and labels. The Server measures the number and duration of requests.
type metrics struct {
	// websockets counts requests that are translated to the runtime's protocol, by endpoint.
	websockets *prometheus.CounterVec
}

// newMetrics registers them, unless there is no registry.
func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{websockets: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_websocket_streaming_requests_total",
		Help: "WebSocket requests that were translated for the container runtime.",
	}, []string{"subresource"})}
	if registry != nil {
		registry.MustRegister(m.websockets)
	}
	return m
}
