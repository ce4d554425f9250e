package execsvc

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// The values of the labels of resizes, as in the kubelet. Swap is the only reason here for which one is infeasible.
const (
	swapLimitation                = "swap_limitation"
	podUpdated, podsRemoved       = "pod_updated", "pods_removed"
	accepted, reverted, resizeEnd = "accepted", "reverted", "terminated"
)

// countResize counts the progress of a resize between two statuses.
func (m *metrics) countResize(at time.Time, pod *v1.Pod, before, now *v1.PodStatus) {
	was, is := conditionOf(before, v1.PodResizePending), conditionOf(now, v1.PodResizePending)
	if is != nil && is.Reason == v1.PodReasonInfeasible && !samePending(is, was) {
		m.infeasible.WithLabelValues(swapLimitation).Inc()
	}
	if was == nil || was.Reason != v1.PodReasonDeferred || is != nil {
		return
	}
	progress, progressBefore := conditionOf(now, v1.PodResizeInProgress), conditionOf(before, v1.PodResizeInProgress)
	switch {
	case podmeta.IsTerminal(now.Phase):
		m.resolved(at, pod, was, resizeEnd)
	case progress != nil && !sameCondition(progress, progressBefore):
		m.resolved(at, pod, was, accepted)
		trigger := podsRemoved // Any capacity that has become free.
		if was.ObservedGeneration != pod.Generation {
			trigger = podUpdated
		}
		m.accepted.WithLabelValues(trigger).Inc()
	default:
		m.resolved(at, pod, was, reverted)
	}
}

// dropResize counts a deferred resize of a pod that is gone.
func (m *metrics) dropResize(at time.Time, pod *v1.Pod, last *v1.PodStatus) {
	if was := conditionOf(last, v1.PodResizePending); was != nil && was.Reason == v1.PodReasonDeferred {
		m.resolved(at, pod, was, resizeEnd)
	}
}

func (m *metrics) resolved(at time.Time, pod *v1.Pod, was *v1.PodCondition, resolution string) {
	m.deferred.WithLabelValues(resolution, kubeletmetrics.PriorityLabel(pod.Spec.Priority)).Observe(at.Sub(was.LastTransitionTime.Time).Seconds())
}

// countRequested counts the resources that a new version of a pod changes. A static pod isn't resized.
func (m *metrics) countRequested(before, now *v1.Pod) {
	if before == nil || now.Generation == 0 || before.UID != now.UID {
		return
	}
	had := resizable(before)
	for name, wants := range resizable(now) {
		has := had[name]
		if has == nil {
			continue
		}
		for _, kind := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
			m.requests(string(kind), "requests", has.Requests[kind], wants.Requests[kind])
			m.requests(string(kind), "limits", has.Limits[kind], wants.Limits[kind])
		}
	}
}

func (m *metrics) requests(kind, requirement string, had, wants resource.Quantity) {
	var operation string
	switch order := wants.Cmp(had); {
	case order == 0:
		return
	case wants.IsZero():
		operation = "remove"
	case had.IsZero():
		operation = "add"
	case order < 0:
		operation = "decrease"
	default:
		operation = "increase"
	}
	m.requested.WithLabelValues(kind, requirement, operation).Inc()
}

// resizable returns the resources of the containers that can be resized.
func resizable(pod *v1.Pod) map[string]*v1.ResourceRequirements {
	out := map[string]*v1.ResourceRequirements{}
	for i := range pod.Spec.Containers {
		out[pod.Spec.Containers[i].Name] = &pod.Spec.Containers[i].Resources
	}
	for i := range pod.Spec.InitContainers {
		out[pod.Spec.InitContainers[i].Name] = &pod.Spec.InitContainers[i].Resources
	}
	return out
}
