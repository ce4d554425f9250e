package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry with the process's and Go's own metrics.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// ServeMetrics serves the registry at /metrics until ctx ends, to whoever asks. With an empty address it does nothing until then.
func ServeMetrics(ctx context.Context, address string, registry *prometheus.Registry) error {
	l, err := ListenMetrics(address)
	if err != nil {
		return err
	}
	return ServeMetricsOn(ctx, l, registry)
}

// ListenMetrics listens at --metrics-address; its port may be 0, for any. Without an address it returns nil.
func ListenMetrics(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-address: %w", err)
	}
	return l, nil
}

// ServeMetricsOn is ServeMetrics on a listener, which it closes. Nil: it does nothing until ctx ends.
func ServeMetricsOn(ctx context.Context, l net.Listener, registry *prometheus.Registry) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	// Anybody who reaches the address may connect: none of them keeps a connection for nothing.
	server := &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
