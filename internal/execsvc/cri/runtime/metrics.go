package runtime

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// metrics are the kubelet's metrics of starts, image volumes, resizes and the runtime's events.
type metrics struct {
	pods, podErrors, userPods, userPodErrors prometheus.Counter
	containers, containerErrors              *prometheus.CounterVec
	volumes, mountedVolumes, failedVolumes   prometheus.Counter
	resizes                                  *prometheus.HistogramVec
	eventStreams, eventErrors                prometheus.Counter
	eventLatency                             prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		pods: kubeletmetrics.StartedPods.New(r), podErrors: kubeletmetrics.StartedPodsErrors.New(r),
		userPods: kubeletmetrics.StartedUserNamespacedPods.New(r), userPodErrors: kubeletmetrics.StartedUserNamespacedPodsErrors.New(r),
		containers: kubeletmetrics.StartedContainers.Vec(r), containerErrors: kubeletmetrics.StartedContainersErrors.Vec(r),
		volumes: kubeletmetrics.ImageVolumesRequested.New(r), mountedVolumes: kubeletmetrics.ImageVolumesMounted.New(r),
		failedVolumes: kubeletmetrics.ImageVolumesErrors.New(r), resizes: kubeletmetrics.PodResizeDuration.Vec(r),
		eventStreams: kubeletmetrics.EventedPLEGConnections.New(r), eventErrors: kubeletmetrics.EventedPLEGErrors.New(r),
		eventLatency: kubeletmetrics.EventedPLEGLatency.New(r),
	}
}

// startsSandbox counts a sandbox that is created now.
func (s *round) startsSandbox() {
	s.metrics.pods.Inc()
	if hostUsers := s.Pod.Spec.HostUsers; hostUsers != nil && !*hostUsers {
		s.newUsers = true
		s.metrics.userPods.Inc()
	}
}

// countRound counts the result of a round that created a sandbox with a user namespace: as with the kubelet, any
// failure counts, because that of the namespace may show only in a container.
func (s *round) countRound() {
	if s.newUsers && s.res.Err != nil {
		s.metrics.userPodErrors.Inc()
	}
}

// containerType returns the label of a container.
func containerType(pod *v1.Pod, start *actions.Start) string {
	switch {
	case start.Ephemeral:
		return kubeletmetrics.EphemeralContainer
	case slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == start.Container.Name }):
		return kubeletmetrics.InitContainer
	}
	return kubeletmetrics.Container
}

func (s *round) countStart(start *actions.Start) {
	s.metrics.containers.WithLabelValues(containerType(s.Pod, start)).Inc()
}

// countFailure counts a container that couldn't be started. reason is that of its status: one of a few.
func (s *round) countFailure(start *actions.Start, reason string) {
	s.metrics.containerErrors.WithLabelValues(containerType(s.Pod, start), reason).Inc()
}

// countImageVolumes counts the image volumes of a container after the runtime has created it, or has failed to.
func (s *round) countImageVolumes(config *runtimeapi.ContainerConfig, err error) {
	images := map[string]bool{}
	for _, m := range config.GetMounts() {
		if m.GetImage() == nil {
			continue
		}
		images[m.GetImage().GetImage()] = true
		if err != nil && strings.Contains(err.Error(), crierrors.ErrImageVolumeMountFailed.Error()) {
			s.metrics.failedVolumes.Inc()
		} else {
			s.metrics.mountedVolumes.Inc()
		}
	}
	s.metrics.volumes.Add(float64(len(images)))
}

// countResize counts a round that resized containers.
func (s *round) countResize(began time.Time, err error) {
	s.metrics.resizes.WithLabelValues(strconv.FormatBool(err == nil)).Observe(float64(s.cfg.Clock.Since(began).Milliseconds()))
}

// countEvent counts an event of the runtime.
func (r *Runtime) countEvent(e *runtimeapi.ContainerEventResponse) {
	if at := e.GetCreatedAt(); at > 0 {
		r.metrics.eventLatency.Observe(r.cfg.Clock.Since(time.Unix(0, at)).Seconds())
	}
}
