package mergesvc

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/manifest"
)

// Collect and Describe make the Hub a prometheus.Collector: its metrics are read when they are asked for.
var (
	revisionDesc = prometheus.NewDesc("podconfigd_revision",
		"The last revision published.", nil, nil)
	readyDesc = prometheus.NewDesc("podconfigd_source_ready",
		"1 if the source has been read in full since the start, else 0.", []string{"source"}, nil)
	failedDesc = prometheus.NewDesc("podconfigd_source_failed",
		"1 if the whole source can't be read now, else 0.", []string{"source"}, nil)
	podsDesc = prometheus.NewDesc("podconfigd_source_pods",
		"Pods of the source that are served.", []string{"source"}, nil)
	findingsDesc = prometheus.NewDesc("podconfigd_source_findings",
		"What is wrong with the source's manifests now, by severity: error, warning, conflict or ignored.",
		[]string{"source", "severity"}, nil)
)

var severities = map[manifest.Severity]string{
	manifest.Error: "error", manifest.Warning: "warning", manifest.Conflict: "conflict", manifest.Ignored: "ignored",
}

// Describe is part of prometheus.Collector.
func (h *Hub) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{revisionDesc, readyDesc, failedDesc, podsDesc, findingsDesc} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (h *Hub) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(revisionDesc, float64(h.history.Number()))
	for _, s := range h.Sources() {
		gauge(readyDesc, flag(s.Ready), s.Name)
		gauge(failedDesc, flag(s.LastErr != nil), s.Name)
		gauge(podsDesc, float64(s.Pods), s.Name)
		counts := map[manifest.Severity]int{}
		for _, f := range s.Findings {
			counts[f.Severity]++
		}
		for severity, label := range severities {
			gauge(findingsDesc, float64(counts[severity]), s.Name, label)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
