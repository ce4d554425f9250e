package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/mergesvc/metrics"
)

// TestMetrics: all metrics can be registered together, have podconfigd's prefix and a help text, and start at
// zero.
func TestMetrics(t *testing.T) {
	m := metrics.New()
	m.Ops.WithLabelValues("file", "ADD")
	m.Catchups.WithLabelValues(metrics.Fresh)
	m.Parked.WithLabelValues(metrics.Stalled)
	m.Refused.WithLabelValues(metrics.TooMany)
	m.Reports.WithLabelValues("applied")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 12 {
		t.Errorf("%d metrics are collected; want 12", len(families))
	}
	for _, f := range families {
		owned := strings.HasPrefix(f.GetName(), "podconfigd_") || strings.HasPrefix(f.GetName(), "podstream_config_reload_")
		if !owned || f.GetHelp() == "" {
			t.Errorf("metric %s, %q; want podconfigd's, with a help text", f.GetName(), f.GetHelp())
		}
		v := f.GetMetric()[0]
		if got := v.GetCounter().GetValue() + float64(v.GetHistogram().GetSampleCount()); got != 0 {
			t.Errorf("metric %s starts at %v; want zero", f.GetName(), got)
		}
	}
	other := metrics.New()
	m.CommitFailures.Inc()
	registry = prometheus.NewPedanticRegistry()
	registry.MustRegister(other)
	if families, err = registry.Gather(); err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetMetric()[0].GetCounter().GetValue() != 0 {
			t.Errorf("metric %s of one daemon shows what another counted", f.GetName())
		}
	}
}
