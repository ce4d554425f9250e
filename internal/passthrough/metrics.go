package passthrough

import "github.com/prometheus/client_golang/prometheus"

// metrics have no label that a client determines.
type metrics struct {
	open    *prometheus.GaugeVec
	refused *prometheus.CounterVec
	bytes   *prometheus.CounterVec
}

// The directions of bytes.
const (
	toTarget = "to_target"
	toClient = "to_client"
)

func newMetrics() metrics {
	return metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "podconfigd_passthrough_connections", Help: "Open connections that are relayed, by configured server name.",
		}, []string{"name"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podconfigd_passthrough_refused_total", Help: "Connections that were closed without being relayed.",
		}, []string{"reason"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podconfigd_passthrough_bytes_total", Help: "Bytes of relayed connections that have ended, by configured server name and direction.",
		}, []string{"name", "direction"}),
	}
}

// Describe is of prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	s.metrics.open.Describe(ch)
	s.metrics.refused.Describe(ch)
	s.metrics.bytes.Describe(ch)
}

// Collect is of prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	s.metrics.open.Collect(ch)
	s.metrics.refused.Collect(ch)
	s.metrics.bytes.Collect(ch)
}
