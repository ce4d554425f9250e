package mergesvc

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
)

var severities = map[manifest.Severity]string{
	manifest.Error: "error", manifest.Warning: "warning", manifest.Conflict: "conflict", manifest.Ignored: "ignored",
}

// Describe is part of prometheus.Collector: the Hub's gauges are computed when they are collected.
func (h *Hub) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metrics.Revision, metrics.StoreOK, metrics.Ready, metrics.Failed, metrics.Heard, metrics.Epoch, metrics.Pods, metrics.Findings,
	} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (h *Hub) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(metrics.Revision, float64(h.history.Number()))
	gauge(metrics.StoreOK, flag(!h.history.Instance().Temporary))
	for _, s := range h.Sources() {
		gauge(metrics.Ready, flag(s.Ready), s.Name)
		gauge(metrics.Failed, flag(s.LastErr != nil), s.Name)
		heard := float64(0)
		if !s.LastHeard.IsZero() {
			heard = float64(s.LastHeard.UnixMilli()) / 1000
		}
		gauge(metrics.Heard, heard, s.Name)
		if epoch, ok := h.epoch(s.Name); ok {
			gauge(metrics.Epoch, float64(epoch), s.Name)
		}
		gauge(metrics.Pods, float64(s.Pods), s.Name)
		counts := map[manifest.Severity]int{}
		for _, f := range s.Findings {
			counts[f.Severity]++
		}
		for severity, label := range severities {
			gauge(metrics.Findings, float64(counts[severity]), s.Name, label)
		}
	}
}

// epoch returns the largest epoch of a source's positions; false: it has none.
func (h *Hub) epoch(source string) (epoch uint64, ok bool) {
	for _, p := range h.history.Reached(source).Current {
		epoch, ok = max(epoch, p.Epoch), true
	}
	return epoch, ok
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
