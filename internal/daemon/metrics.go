package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry with the process's and Go's own metrics, those that the kubelet has.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Page is the content of --metrics-address.
type Page struct {
	// Registry is served at /metrics.
	Registry prometheus.Gatherer
	// Health reports the health of each part of the daemon; the daemon as a whole is "". /healthz reports only the
	// whole, /readyz all parts. Nil: both answer 200.
	Health func() map[string]bool
}

// listenMetrics listens at --metrics-address; port 0 means any free port. Without an address it returns nil.
func listenMetrics(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-address: %w", err)
	}
	return l, nil
}

// ServeMetrics serves the page to every client on l, which it closes, until ctx ends. With a nil listener it only waits for that.
func ServeMetrics(ctx context.Context, l net.Listener, page Page) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", MetricsHandler(page.Registry))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		page.answer(w, func(part string) bool { return part == "" })
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		page.answer(w, func(string) bool { return true })
	})
	// Any client that reaches the address may connect, so idle connections are closed.
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

// answer writes 200 if all parts that count are healthy, and otherwise 503 with the names of the others.
func (p Page) answer(w http.ResponseWriter, counts func(part string) bool) {
	var bad []string
	if p.Health != nil {
		for part, good := range p.Health() {
			if !good && counts(part) {
				bad = append(bad, cmp.Or(part, "serving"))
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(bad) == 0 {
		_, _ = io.WriteString(w, "ok")
		return
	}
	slices.Sort(bad)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "not ready: "+strings.Join(bad, ", ")+"\n")
}
