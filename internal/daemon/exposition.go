package daemon

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/singleflight"
)

const (
	// maxScrapes is how many scrapes of one page are answered at once, and scrapeTimeout their time limit.
	maxScrapes    = 20
	scrapeTimeout = 30 * time.Second
)

// MetricsHandler serves metrics. Scrapes that overlap share one reading.
func MetricsHandler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(&shared{of: g}, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout})
}

// shared is a Gatherer whose callers share a reading that is under way. They don't change it.
type shared struct {
	of    prometheus.Gatherer
	group singleflight.Group
}

// Gather is part of prometheus.Gatherer.
func (s *shared) Gather() ([]*dto.MetricFamily, error) {
	got, err, _ := s.group.Do("", func() (any, error) { return s.of.Gather() })
	families, ok := got.([]*dto.MetricFamily)
	if !ok && err == nil {
		err = errors.New("the metrics have another type")
	}
	return families, err
}
