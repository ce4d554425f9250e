package pullrecord

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics are the kubelet's. Those of its caches have no meaning here.
type metrics struct {
	intents, records prometheus.Gauge
	checks           *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{
		intents: kubeletmetrics.PullIntents.New(r), records: kubeletmetrics.PulledRecords.New(r), checks: kubeletmetrics.MustPullChecks.Vec(r),
	}
	for _, result := range []string{imageaccess.PolicyAllowed, imageaccess.RecordFound, imageaccess.MustAuthenticate, imageaccess.CheckError} {
		m.checks.WithLabelValues(result)
	}
	return m
}
