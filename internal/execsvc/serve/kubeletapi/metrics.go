package kubeletapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the kubelet's (pkg/kubelet/server/metrics), under its names and labels.
type metrics struct {
	requests *prometheus.CounterVec
	inflight *prometheus.GaugeVec
	duration *prometheus.HistogramVec
}

var labels = []string{"method", "path", "server_type", "long_running"}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_http_requests_total", Help: "Requests that the node's API has received.",
		}, labels),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_http_inflight_requests", Help: "Requests to the node's API under way.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_http_requests_duration_seconds", Help: "How long requests to the node's API took.", Buckets: prometheus.DefBuckets,
		}, labels),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.inflight, m.duration}
}

// begin counts a request; the returned function is called when it ends.
func (m *metrics) begin(r *http.Request, kind string) (end func()) {
	path := bucket(r.URL.Path)
	long := path == "exec" || path == "attach" || path == "portForward" || path == "debug"
	values := []string{method(r.Method), path, kind, strconv.FormatBool(long)}
	m.requests.WithLabelValues(values...).Inc()
	inflight, began := m.inflight.WithLabelValues(values...), time.Now()
	inflight.Inc()
	return func() {
		inflight.Dec()
		m.duration.WithLabelValues(values...).Observe(time.Since(began).Seconds())
	}
}

// buckets are the paths with a label of their own: callers can't create labels.
var buckets = map[string]bool{
	"healthz": true, "pods": true, "runningpods": true, "stats": true, "configz": true, "flagz": true, "statusz": true, "logs": true, "debug": true, "metrics": true,
	"metrics/cadvisor": true, "metrics/probes": true, "metrics/resource": true, "metrics/slis": true,
	"containerLogs": true, "exec": true, "attach": true, "portForward": true, "run": true, "checkpoint": true,
}

func bucket(path string) string {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if first == "metrics" && rest != "" {
		second, _, _ := strings.Cut(rest, "/")
		first += "/" + second
	}
	if buckets[first] {
		return first
	}
	return "other"
}

func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
		http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return m
	default:
		return "other"
	}
}
