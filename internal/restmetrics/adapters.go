package restmetrics

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The types of this file are client-go's interfaces of metrics.

type latency struct{ to *prometheus.HistogramVec }

func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.to.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

type size struct{ to *prometheus.HistogramVec }

func (s size) Observe(_ context.Context, verb, host string, bytes float64) {
	s.to.WithLabelValues(verb, host).Observe(bytes)
}

type results struct{}

func (results) Increment(_ context.Context, code, method, host string) {
	requests.WithLabelValues(code, method, host).Inc()
}

type repeats struct{}

func (repeats) IncrementRetry(_ context.Context, code, method, host string) {
	retries.WithLabelValues(code, method, host).Inc()
}

type rotations struct{}

func (rotations) Observe(d time.Duration) { age.Observe(d.Seconds()) }

type calls struct{}

func (calls) Increment(exitCode int, status string) {
	pluginCalls.WithLabelValues(strconv.Itoa(exitCode), status).Inc()
}

type entries struct{}

func (entries) Observe(n int) { cached.Set(float64(n)) }

type outcomes struct{ to *prometheus.CounterVec }

func (o outcomes) Increment(result string) { o.to.WithLabelValues(result).Inc() }

type reloads struct{}

func (reloads) Increment(result, reason string) { caReloads.WithLabelValues(result, reason).Inc() }

type ended struct{}

func (ended) Increment() { rotationEnds.Inc() }
