package volume

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// The operations and results of StorageOperationDuration, and the states of VolumeManagerTotalVolumes.
const (
	opMount, opUnmount       = "volume_mount", "volume_unmount"
	statusOK, statusFailed   = "success", "fail-unknown"
	stateDesired, stateIsSet = "desired_state_of_world", "actual_state_of_world"
)

// metrics has the durations of operations, and which volumes are desired and set up. It is safe for concurrent use.
type metrics struct {
	durations *prometheus.HistogramVec
	total     *prometheus.Desc

	mu sync.Mutex
	// volumes has the volumes of each pod, by name. Its size is bounded by the pods' specs.
	volumes map[types.UID]map[string]tracked
}

// tracked is what a pod's volume is.
type tracked struct {
	plugin string
	isSet  bool
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		durations: kubeletmetrics.StorageOperationDuration.Vec(r), total: kubeletmetrics.VolumeManagerTotalVolumes.Desc(),
		volumes: map[types.UID]map[string]tracked{},
	}
	if r != nil {
		r.MustRegister(m)
	}
	return m
}

// setUp records an attempt to set up a volume. A failure leaves a volume that was set up as it was.
func (m *metrics) setUp(v *Volume, plugin string, took time.Duration, err error) {
	m.observe(plugin, opMount, took, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.volumes[v.UID]
	if of == nil {
		of = map[string]tracked{}
		m.volumes[v.UID] = of
	}
	was := of[v.Name]
	of[v.Name] = tracked{plugin, err == nil || was.isSet && was.plugin == plugin}
}

// tornDown records that nothing is left of a pod's volumes.
func (m *metrics) tornDown(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.volumes, uid)
}

func (m *metrics) observe(plugin, operation string, took time.Duration, err error) {
	status := statusOK
	if err != nil {
		status = statusFailed
	}
	m.durations.WithLabelValues(plugin, operation, status, "false").Observe(took.Seconds())
}

// Describe is part of prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.total }

// Collect is part of prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	counts := map[[2]string]int{}
	m.mu.Lock()
	for _, of := range m.volumes {
		for _, v := range of {
			counts[[2]string{v.plugin, stateDesired}]++
			if v.isSet {
				counts[[2]string{v.plugin, stateIsSet}]++
			}
		}
	}
	m.mu.Unlock()
	for labels, n := range counts {
		ch <- prometheus.MustNewConstMetric(m.total, prometheus.GaugeValue, float64(n), labels[0], labels[1])
	}
}
