package plugins

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// collector computes plugin_manager_total_plugins when it is scraped.
type collector struct{ m *Manager }

var totalPlugins = kubeletmetrics.PluginManagerTotalPlugins.Desc()

// Describe is part of prometheus.Collector.
func (collector) Describe(descs chan<- *prometheus.Desc) { descs <- totalPlugins }

// Collect is part of prometheus.Collector. Names of files that aren't UTF-8 may become the same label.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	counts := map[[2]string]float64{}
	for _, s := range c.m.Statuses() {
		path := cut(s.Socket, maxPath)
		counts[[2]string{path, "desired_state_of_world"}]++
		if s.State == Serving || s.State == StandingBy {
			counts[[2]string{path, "actual_state_of_world"}]++
		}
	}
	for labels, n := range counts {
		metrics <- prometheus.MustNewConstMetric(totalPlugins, prometheus.GaugeValue, n, labels[0], labels[1])
	}
}
