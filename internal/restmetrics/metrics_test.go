package restmetrics

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"

	"github.com/podstream/podstream/internal/metrictest"
)

// A request of a REST client, and one that is repeated as the server demands, are counted.
func TestRequests(t *testing.T) {
	registry := prometheus.NewRegistry()
	Register(registry)
	busy := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if busy {
			busy = false
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = w.Write([]byte(`{"kind":"Status"}`))
	}))
	defer server.Close()
	client, err := rest.RESTClientFor(&rest.Config{
		Host: server.URL, QPS: 100, Burst: 100, APIPath: "/api",
		ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Post().Resource("pods").Body([]byte("{}")).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	metrictest.Want(t, registry, map[string]float64{
		"rest_client_requests_total{code=200,method=POST}": 1, "rest_client_requests_total{code=429}": 1,
		"rest_client_request_retries_total{verb=POST}": 1, "rest_client_request_duration_seconds{verb=POST}": 1,
		"rest_client_request_size_bytes": 2, "rest_client_response_size_bytes": 1,
	})
	if got := metrictest.Value(t, registry, "rest_client_rate_limiter_duration_seconds"); got < 1 {
		t.Errorf("%v waits for the rate limit were measured; want at least one", got)
	}
	if got := metrictest.Value(t, registry, "rest_client_transport_create_calls_total"); got < 1 {
		t.Errorf("%v transports were counted; want at least one", got)
	}
}

// What a test can't bring client-go to report is reported by its interfaces.
func TestOthers(t *testing.T) {
	registry := prometheus.NewRegistry()
	Register(registry)
	if got := metrictest.Value(t, registry, "rest_client_exec_plugin_ttl_seconds"); !math.IsInf(got, 1) {
		t.Errorf("without a plugin, its certificates last %v s; want without end", got)
	}
	at := time.Now().Add(time.Hour)
	metrics.ClientCertExpiry.Set(&at)
	metrics.ClientCertRotationAge.Observe(time.Hour)
	metrics.ExecPluginCalls.Increment(1, "plugin_execution_error")
	metrics.TransportCacheEntries.Observe(3)
	metrics.TransportCAReloads.Increment("success", "ca_bundle")
	metrics.TransportCertRotationGCCalls.Increment()
	metrics.TransportCacheGCCalls.Increment("deleted")
	metrics.RateLimiterLatency.Observe(context.Background(), "GET", url.URL{Host: "other"}, time.Second)
	metrictest.Want(t, registry, map[string]float64{
		"rest_client_exec_plugin_certificate_rotation_age": 1, "rest_client_exec_plugin_call_total{code=1,call_status=plugin_execution_error}": 1,
		"rest_client_transport_cache_entries": 3, "rest_client_transport_ca_reload_total{result=success,reason=ca_bundle}": 1,
		"rest_client_transport_cert_rotation_gc_calls_total": 1, "rest_client_transport_cache_gc_calls_total{result=deleted}": 1,
		"rest_client_rate_limiter_duration_seconds{host=other}": 1,
	})
	if got := metrictest.Value(t, registry, "rest_client_exec_plugin_ttl_seconds"); got > 3600 || got < 3000 {
		t.Errorf("the certificate lasts %v s; want an hour", got)
	}
}
