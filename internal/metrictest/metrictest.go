package metrictest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Value returns the value of a series, and the number of observations of a histogram. labels are names and values in
// turn; series with other labels too are added up. Without any such series it is 0.
func Value(t *testing.T, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	sum := 0.0
	for _, m := range find(t, g, name) {
		if has(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// Sum returns the sum of a histogram's observations.
func Sum(t *testing.T, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	sum := 0.0
	for _, m := range find(t, g, name) {
		if has(m, labels) {
			sum += m.GetHistogram().GetSampleSum()
		}
	}
	return sum
}

// Count returns the number of series with that name.
func Count(t *testing.T, g prometheus.Gatherer, name string) int {
	t.Helper()
	return len(find(t, g, name))
}

// Want reports series that don't have the wanted value. A key is a name, with labels in braces or without:
// "kubelet_evictions{eviction_signal=memory.available}".
func Want(t *testing.T, g prometheus.Gatherer, want map[string]float64) {
	t.Helper()
	for series, value := range want {
		if got := Of(t, g, series); got != value {
			t.Errorf("%s is %v; want %v", series, got, value)
		}
	}
}

// Of is Value for a key of Want.
func Of(t *testing.T, g prometheus.Gatherer, series string) float64 {
	t.Helper()
	name, rest, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	var labels []string
	for pair := range strings.SplitSeq(rest, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			labels = append(labels, key, value)
		}
	}
	return Value(t, g, name, labels...)
}

func find(t *testing.T, g prometheus.Gatherer, name string) []*dto.Metric {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatalf("gather the metrics: %v", err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

func has(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}
