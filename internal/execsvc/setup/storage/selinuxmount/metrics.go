package selinuxmount

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// Metrics counts volumes with contexts, and pods that wait because of one. A nil Metrics counts nothing. As in the
// kubelet, each attempt of a pod that waits counts.
type Metrics struct {
	labelErrors, labelWarnings *prometheus.GaugeVec
	podErrors, podWarnings     *prometheus.GaugeVec
	conflicts, admitted        *prometheus.GaugeVec
}

// NewMetrics returns Metrics that are registered there.
func NewMetrics(r prometheus.Registerer) *Metrics {
	return &Metrics{
		labelErrors: kubeletmetrics.SELinuxContainerErrors.Vec(r), labelWarnings: kubeletmetrics.SELinuxContainerWarnings.Vec(r),
		podErrors: kubeletmetrics.SELinuxPodMismatchErrors.Vec(r), podWarnings: kubeletmetrics.SELinuxPodMismatchWarnings.Vec(r),
		conflicts: kubeletmetrics.SELinuxVolumeMismatchErrors.Vec(r), admitted: kubeletmetrics.SELinuxVolumesAdmitted.Vec(r),
	}
}

// Conflict counts a pod that waits for a volume with another context. plugin is the plugin's name, with the driver's, and mode
// the volume's AccessMode.
func (m *Metrics) Conflict(plugin, mode string) {
	if m != nil {
		m.conflicts.WithLabelValues(plugin, mode).Inc()
	}
}

// Admitted counts a volume that is mounted with a context.
func (m *Metrics) Admitted(plugin, mode string) {
	if m != nil {
		m.admitted.WithLabelValues(plugin, mode).Inc()
	}
}

// failed counts a volume without a context. The pod waits if waits is set.
func (m *Metrics) failed(v Volume, err error, waits bool) {
	if m == nil {
		return
	}
	_, multiple := errors.AsType[*MultipleLabelsError](err)
	vec := m.labelWarnings
	switch {
	case multiple && waits:
		vec = m.podErrors
	case multiple:
		vec = m.podWarnings
	case waits:
		vec = m.labelErrors
	}
	vec.WithLabelValues(v.AccessMode()).Inc()
}

// AccessMode returns the kubelet's short name of the volume's widest access mode, for metrics.
func (v Volume) AccessMode() string {
	if !v.Persistent {
		return "inline"
	}
	for _, mode := range []struct {
		mode v1.PersistentVolumeAccessMode
		name string
	}{{v1.ReadWriteMany, "RWX"}, {v1.ReadOnlyMany, "ROX"}, {v1.ReadWriteOnce, "RWO"}, {v1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(v.Modes, mode.mode) {
			return mode.name
		}
	}
	return ""
}
