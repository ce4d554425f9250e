package execsvc

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// maxReasons bounds the reasons of ended containers that become labels: they are the runtime's words.
const maxReasons = 20

// metrics count what happens to pods. The census has the numbers of pods.
type metrics struct {
	starts                             prometheus.Histogram
	ended, rejected, preempted, levels *prometheus.CounterVec
	requested, infeasible, accepted    *prometheus.CounterVec
	deferred                           *prometheus.HistogramVec
	orphaned                           prometheus.Counter
	swept                              prometheus.Gauge
	reasons                            *kubeletmetrics.Limited
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		starts: kubeletmetrics.PodStartDuration.New(r), ended: kubeletmetrics.TerminatedContainers.Vec(r),
		rejected: kubeletmetrics.AdmissionRejections.Vec(r), preempted: kubeletmetrics.Preemptions.Vec(r),
		levels: kubeletmetrics.PodLevelResourcesAdmission.Vec(r), requested: kubeletmetrics.ContainerRequestedResizes.Vec(r),
		infeasible: kubeletmetrics.PodInfeasibleResizes.Vec(r), accepted: kubeletmetrics.PodDeferredAcceptedResizes.Vec(r),
		deferred: kubeletmetrics.PodDeferredResizeDuration.Vec(r), orphaned: kubeletmetrics.OrphanedRuntimePods.New(r),
		swept: kubeletmetrics.OrphanPodCleanedVolumes.New(r), reasons: kubeletmetrics.NewLimited(maxReasons),
	}
}

// countStatus counts what the change of a status shows. before may be nil.
func (a *Agent) countStatus(pod *v1.Pod, before, now *v1.PodStatus) {
	if before == nil {
		before = &v1.PodStatus{}
	}
	if now.Phase == v1.PodRunning && (before.Phase == v1.PodPending || before.Phase == "") {
		if w, working := a.workers.Get(pod.UID); working && w.State == worker.Syncing {
			a.metrics.starts.Observe(a.cfg.Clock.Since(w.Arrived).Seconds())
		}
	}
	a.metrics.countEnded(kubeletmetrics.InitContainer, before.InitContainerStatuses, now.InitContainerStatuses)
	a.metrics.countEnded(kubeletmetrics.Container, before.ContainerStatuses, now.ContainerStatuses)
	a.metrics.countEnded(kubeletmetrics.EphemeralContainer, before.EphemeralContainerStatuses, now.EphemeralContainerStatuses)
	a.metrics.countResize(a.cfg.Clock.Now(), pod, before, now)
}

// countEnded counts the containers that have ended between two statuses.
func (m *metrics) countEnded(kind string, before, now []v1.ContainerStatus) {
	ended := map[string]bool{}
	for i := range before {
		ended[before[i].Name] = before[i].State.Terminated != nil
	}
	for i := range now {
		if end := now[i].State.Terminated; end != nil && !ended[now[i].Name] {
			m.ended.WithLabelValues(kind, kubeletmetrics.ExitCodeLabel(end.ExitCode), m.reasons.Value(end.Reason)).Inc()
		}
	}
}

// countAdmitted counts a pod when it is admitted for the first time, by where its resources are set.
func (m *metrics) countAdmitted(pod *v1.Pod) {
	containers := false
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			containers = containers || len(list[i].Resources.Requests)+len(list[i].Resources.Limits) > 0
		}
	}
	mode := ""
	switch whole := podresource.IsPodLevelResourcesSet(pod); {
	case whole && containers:
		mode = "pod_and_container_level"
	case whole:
		mode = "pod_level"
	case containers:
		mode = "container_level"
	}
	m.levels.WithLabelValues(mode, strings.ToLower(string(podmeta.QOSClass(pod)))).Inc()
}
