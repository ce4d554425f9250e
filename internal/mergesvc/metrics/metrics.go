// Package metrics defines every Prometheus metric of podconfigd, with its labels. The Hub, the service and the
// reloader write to them. The gauges are only described here; the package that has their values collects them.
//
// It runs no goroutines and registers nothing by itself.
package metrics

import "github.com/prometheus/client_golang/prometheus"

// The values of the label "how" of podconfigd_catchups_total: how a consumer got to the current state.
const (
	Fresh     = "fresh"     // the consumer held nothing
	Exact     = "exact"     // the consumer resumed in exact history
	Coalesced = "coalesced" // one op for each pod that changed since its cursor
	Known     = "known"     // the difference to its known_pods
	Set       = "set"       // a SET
)

// The values of the label "reason" of podconfigd_consumers_parked_total and podconfigd_consumers_refused_total.
const (
	// Stalled: a message couldn't be handed to the transport for a while, because the consumer doesn't read.
	Stalled = "stalled"
	// FellBehind: the history dropped revisions that the consumer hadn't read.
	FellBehind = "fell_behind"
	// TooMany: the limit of open streams is reached.
	TooMany = "too_many"
)

// Metrics are the counters and histograms.
type Metrics struct {
	MergeSeconds, CommitSeconds, DeliverySeconds prometheus.Histogram
	CommitFailures                               prometheus.Counter
	// Ops has the labels source and op.
	Ops *prometheus.CounterVec
	// Catchups has the label how; Parked and Refused have reason.
	Catchups, Parked, Refused *prometheus.CounterVec
	// Reports has the label outcome: applied or rejected.
	Reports *prometheus.CounterVec
	// Reloads counts the times that the configuration was read again, ReloadErrors those that were refused. Reloaded
	// is the time of the last one that was accepted, that of the start included.
	Reloads, ReloadErrors prometheus.Counter
	Reloaded              prometheus.Gauge
}

// The gauges. Those of sources have the label source.
var (
	Revision = desc("podconfigd_revision", "The last revision published.")
	StoreOK  = desc("podconfigd_store_durable", "1 if every revision is on disk before it is sent, 0 while podconfigd serves from memory.")
	Ready    = desc("podconfigd_source_ready", "1 if the source has been read in full since the start, else 0.", "source")
	Failed   = desc("podconfigd_source_failed", "1 if the whole source can't be read now, else 0.", "source")
	Heard    = desc("podconfigd_source_last_heard_timestamp_seconds",
		"When the place that the source's pods come from last answered; a relay's is that of its upstream's sources. "+
			"0: never.", "source")
	Epoch = desc("podconfigd_source_epoch",
		"How often the history of the source's cluster is known to have gone back. Absent: the source has no positions.", "source")
	Pods     = desc("podconfigd_source_pods", "Pods of the source that are served.", "source")
	Findings = desc("podconfigd_source_findings",
		"Current problems with the source's manifests, by severity: error, warning, conflict or ignored.", "source", "severity")
	Consumers = desc("podconfigd_consumers", "Open streams, by state: catching_up, live or parked.", "state")
	Held      = desc("podconfigd_held_consumers", "Streams of which a source is held, as podconfigd is behind their consumer, or the consumer would lose pods by a move.", "source")
	Lag       = desc("podconfigd_consumer_lag_revisions", "Revisions that the slowest consumer has yet to be sent.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// New returns Metrics at zero.
func New() *Metrics {
	histogram := func(name, help string, start float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 4, 9),
		})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		MergeSeconds:    histogram("podconfigd_merge_seconds", "Time to merge one set of a source.", 1e-6),
		CommitSeconds:   histogram("podconfigd_store_commit_seconds", "Time to put revisions on disk, fsync included.", 1e-4),
		DeliverySeconds: histogram("podconfigd_delivery_seconds", "Time from a revision's publication until its last message was handed to a stream.", 1e-5),
		CommitFailures:  counter("podconfigd_store_failures_total", "Times that the store couldn't be written."),
		Ops:             counters("podconfigd_ops_total", "Pods in the ops of all revisions.", "source", "op"),
		Catchups:        counters("podconfigd_catchups_total", "How consumers got to the current state.", "how"),
		Parked:          counters("podconfigd_consumers_parked_total", "Times that a consumer was parked.", "reason"),
		Refused:         counters("podconfigd_consumers_refused_total", "Streams that weren't served.", "reason"),
		Reports:         counters("podconfigd_reports_total", "ReportApplied calls, by outcome: applied or rejected.", "outcome"),

		Reloads:      counter("podstream_config_reload_total", "Times that the configuration was read again."),
		ReloadErrors: counter("podstream_config_reload_errors_total", "Times that the configuration was refused, so that the previous one stayed in force."),
		Reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "podstream_config_reload_last_success_timestamp_seconds",
			Help: "When a good configuration was read last, at the start included.",
		}),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.MergeSeconds, m.CommitSeconds, m.DeliverySeconds, m.CommitFailures, m.Ops, m.Catchups, m.Parked, m.Refused, m.Reports,
		m.Reloads, m.ReloadErrors, m.Reloaded,
	}
}

// Describe is part of prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect is part of prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}
