package stats

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// SummaryHandler serves /stats/summary. only_cpu_and_memory=true excludes the rest.
func (s *Stats) SummaryHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		brief := req.URL.Query().Get("only_cpu_and_memory") == "true"
		r, err := s.usage(req.Context(), brief)
		if r == nil || r.machine == nil || r.unlisted {
			// A summary needs the node and its pods; the rest may be missing.
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		var disk *diskReading
		if !brief {
			disk = s.diskUsage(req.Context())
		}
		data, err := json.Marshal(summary(s.cfg.Node, r, disk))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data)
	})
}

// ResourceHandler serves /metrics/resource.
func (s *Stats) ResourceHandler() http.Handler {
	return s.metrics(true, func(_ context.Context, r *reading, failed bool) []*dto.MetricFamily {
		return resourceMetrics(r, failed)
	})
}

// CadvisorHandler serves /metrics/cadvisor.
func (s *Stats) CadvisorHandler() http.Handler {
	return s.metrics(false, func(ctx context.Context, r *reading, failed bool) []*dto.MetricFamily {
		return cadvisorMetrics(r, s.tasks(ctx), failed)
	})
}

// metrics serves the metrics that of makes of a reading. Unreadable values are missing, and a series reports that.
func (s *Stats) metrics(brief bool, of func(ctx context.Context, r *reading, failed bool) []*dto.MetricFamily) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		gather := func() ([]*dto.MetricFamily, error) {
			r, err := s.usage(req.Context(), brief)
			return of(req.Context(), r, err != nil), nil
		}
		promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{}).ServeHTTP(w, req)
	})
}
