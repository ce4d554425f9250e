package restmetrics

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

var (
	durations = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	sizes     = []float64{64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}
	ages      = []float64{600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000}

	verbHost = []string{"verb", "host"}

	requestDuration = histogram("rest_client_request_duration_seconds", "Duration of requests to the API server.", durations, verbHost)
	requestSize     = histogram("rest_client_request_size_bytes", "Size of requests to the API server.", sizes, verbHost)
	responseSize    = histogram("rest_client_response_size_bytes", "Size of answers of the API server.", sizes, verbHost)
	limiterDuration = histogram("rest_client_rate_limiter_duration_seconds", "Time for which requests waited for the client's rate limit.", durations, verbHost)
	requests        = counter("rest_client_requests_total", "Requests to the API server, by the status of the answer.", "code", "method", "host")
	retries         = counter("rest_client_request_retries_total", "Repeated requests to the API server.", "code", "verb", "host")
	pluginCalls     = counter("rest_client_exec_plugin_call_total", "Runs of the plugin that provides credentials.", "code", "call_status")
	transports      = counter("rest_client_transport_create_calls_total", "Requests for a transport, by whether the cache had it.", "result")
	caReloads       = counter("rest_client_transport_ca_reload_total", "Times that the file of CAs was read again.", "result", "reason")
	cacheDrops      = counter("rest_client_transport_cache_gc_calls_total", "Transports that the cache dropped, or kept.", "result")
	rotationEnds    = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "rest_client_transport_cert_rotation_gc_calls_total", Help: "Times that a certificate's rotation ended with its transport.",
	})
	cached = prometheus.NewGauge(prometheus.GaugeOpts{Name: "rest_client_transport_cache_entries", Help: "Transports in the cache."})
	age    = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "rest_client_exec_plugin_certificate_rotation_age", Help: "Age of a plugin's certificates when they were replaced.", Buckets: ages,
	})
	left = &expiry{}
	ttl  = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rest_client_exec_plugin_ttl_seconds", Help: "Time until the first of the plugin's certificates expires; +Inf without one.",
	}, left.seconds)
)

func histogram(name, help string, buckets []float64, labels []string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// install gives client-go the metrics, once in a process.
var install = sync.OnceFunc(func() {
	metrics.Register(metrics.RegisterOpts{
		ClientCertExpiry: left, ClientCertRotationAge: rotations{}, RequestLatency: latency{requestDuration}, RequestSize: size{requestSize},
		ResponseSize: size{responseSize}, RateLimiterLatency: latency{limiterDuration}, RequestResult: results{}, RequestRetry: repeats{},
		ExecPluginCalls: calls{}, TransportCacheEntries: entries{}, TransportCreateCalls: outcomes{transports}, TransportCAReloads: reloads{},
		TransportCertRotationGCCalls: ended{}, TransportCacheGCCalls: outcomes{cacheDrops},
	})
})

// Register has the registry serve the metrics. It must be called before the first request.
func Register(r prometheus.Registerer) {
	install()
	r.MustRegister(
		requestDuration, requestSize, responseSize, limiterDuration, requests, retries, pluginCalls, transports, caReloads, cacheDrops, rotationEnds,
		cached, age, ttl,
	)
}

// expiry is the time at which the first of the plugin's certificates expires.
type expiry struct {
	mu sync.Mutex
	at *time.Time
}

// Set is part of metrics.ExpiryMetric.
func (e *expiry) Set(at *time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at = at
}

func (e *expiry) seconds() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		return math.Inf(1)
	}
	return time.Until(*e.at).Seconds()
}
