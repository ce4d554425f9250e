package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/metrictest"
)

// slow is a collector that takes a second.
type slow struct {
	mu    sync.Mutex
	times int
}

var slowDesc = prometheus.NewDesc("slow", "slow", nil, nil)

func (s *slow) Describe(out chan<- *prometheus.Desc) { out <- slowDesc }

func (s *slow) Collect(out chan<- prometheus.Metric) {
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times++
	out <- prometheus.MustNewConstMetric(slowDesc, prometheus.GaugeValue, float64(s.times))
}

// Scrapes that overlap share a reading, and too many are refused.
func TestSharedScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, collector := prometheus.NewRegistry(), &slow{}
		registry.MustRegister(collector)
		handler := MetricsHandler(registry)
		var scrapes sync.WaitGroup
		codes := make(chan int, 2*maxScrapes)
		for range 2 * maxScrapes {
			scrapes.Go(func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
				codes <- w.Code
			})
		}
		scrapes.Wait()
		close(codes)
		count := map[int]int{}
		for code := range codes {
			count[code]++
		}
		if collector.times != 1 || count[http.StatusOK] != maxScrapes || count[http.StatusServiceUnavailable] != maxScrapes {
			t.Errorf("%d readings, answers %v; want one reading, and as many answers as refusals", collector.times, count)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		if !strings.Contains(w.Body.String(), "slow 2") {
			t.Errorf("a later scrape reads %q; want a reading of its own", w.Body)
		}
	})
}

func TestBuildInfo(t *testing.T) {
	registry := prometheus.NewRegistry()
	RegisterBuildInfo(registry, "v1.37.2-podstream")
	metrictest.Want(t, registry, map[string]float64{"kubernetes_build_info{major=1,minor=37,git_version=v1.37.2-podstream}": 1})
}

// A daemon has the metrics of its process and of Go that the kubelet has.
func TestProcessMetrics(t *testing.T) {
	registry := NewRegistry()
	for _, name := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds", "go_goroutines", "go_sched_goroutines_goroutines"} {
		if metrictest.Value(t, registry, name) <= 0 {
			t.Errorf("%s is 0", name)
		}
	}
}
