package pullrecord

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// metrics are the kubelet's. Those of its caches have no meaning here.
type metrics struct {
	intents, records prometheus.Gauge
	checks           *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	m := metrics{
		intents: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_imagemanager_ondisk_pullintents", Help: "ImagePullIntents on the disk.",
		}),
		records: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_imagemanager_ondisk_pulledrecords", Help: "ImagePulledRecords on the disk.",
		}),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_imagemanager_image_mustpull_checks_total",
			Help: "Checks whether a pod may use an image that the node has, by result: credentialPolicyAllowed, credentialRecordFound, " +
				"mustAuthenticate or error.",
		}, []string{"result"}),
	}
	for _, result := range []string{imageaccess.PolicyAllowed, imageaccess.RecordFound, imageaccess.MustAuthenticate, imageaccess.CheckError} {
		m.checks.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(m.intents, m.records, m.checks)
	}
	return m
}
