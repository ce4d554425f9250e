package kubeletmetrics

import "github.com/prometheus/client_golang/prometheus"

// Series is one metric: its name with the prefix, its labels in order, and the buckets of a histogram.
type Series struct {
	Name, Help string
	Labels     []string
	Buckets    []float64
}

// Counter is a series of that type.
type Counter Series

// Gauge is a series of that type.
type Gauge Series

// Histogram is a series of that type.
type Histogram Series

// New returns the counter, which has no labels.
func (c Counter) New(r prometheus.Registerer) prometheus.Counter {
	return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: c.Name, Help: c.Help}))
}

// Vec returns the counter with its labels.
func (c Counter) Vec(r prometheus.Registerer) *prometheus.CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: c.Name, Help: c.Help}, c.Labels))
}

// New returns the gauge, which has no labels.
func (g Gauge) New(r prometheus.Registerer) prometheus.Gauge {
	return register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: g.Name, Help: g.Help}))
}

// Vec returns the gauge with its labels.
func (g Gauge) Vec(r prometheus.Registerer) *prometheus.GaugeVec {
	return register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: g.Name, Help: g.Help}, g.Labels))
}

// Desc returns the description of a gauge whose values are computed when it is scraped.
func (g Gauge) Desc() *prometheus.Desc { return prometheus.NewDesc(g.Name, g.Help, g.Labels, nil) }

// New returns the histogram, which has no labels.
func (h Histogram) New(r prometheus.Registerer) prometheus.Histogram {
	return register(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: h.Name, Help: h.Help, Buckets: h.Buckets}))
}

// Vec returns the histogram with its labels.
func (h Histogram) Vec(r prometheus.Registerer) *prometheus.HistogramVec {
	return register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: h.Name, Help: h.Help, Buckets: h.Buckets}, h.Labels))
}

func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r != nil {
		r.MustRegister(c)
	}
	return c
}
