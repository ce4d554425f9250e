package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics are the kubelet's metrics of pod workers.
type metrics struct {
	steps          *prometheus.HistogramVec
	starts, perPod prometheus.Histogram
	restarts       *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		steps: kubeletmetrics.PodWorkerDuration.Vec(r), starts: kubeletmetrics.PodWorkerStartDuration.New(r),
		perPod: kubeletmetrics.ContainersPerPod.New(r), restarts: kubeletmetrics.RestartedPods.Vec(r),
	}
	for _, static := range []bool{false, true} {
		m.restarts.WithLabelValues(kubeletmetrics.StaticLabel(static))
	}
	return m
}

// progress is what a worker has done, for the metrics.
type progress struct {
	// arrived is when the pod arrived. synced is set once its first sync has begun, updated while its pod has changed
	// since the last sync began.
	arrived         time.Time
	synced, updated bool
}

// operation returns the kubelet's name of a step that begins now, or "" if it has none. The caller holds mu.
func (w *Workers) operation(k *worker, s step) string {
	switch s {
	case stepSync:
		updated := k.progress.updated
		k.progress.updated = false
		switch {
		case !k.progress.synced:
			k.progress.synced = true
			w.metrics.starts.Observe(w.cfg.Clock.Since(k.progress.arrived).Seconds())
			w.metrics.perPod.Observe(float64(len(k.machine.pod.Spec.Containers)))
			return "create"
		case updated:
			return "update"
		}
		return "sync"
	case stepTerminate:
		return "kill"
	case stepCleanUp:
		return "terminated"
	}
	return ""
}

// measure records how long a step took.
func (w *Workers) measure(operation string, began time.Time) {
	if operation != "" {
		w.metrics.steps.WithLabelValues(operation).Observe(w.cfg.Clock.Since(began).Seconds())
	}
}

// restarted counts a pod that starts again with the UID of one that has ended.
func (m *metrics) restarted(pod *v1.Pod) {
	m.restarts.WithLabelValues(kubeletmetrics.StaticLabel(podmeta.IsStatic(pod))).Inc()
}
