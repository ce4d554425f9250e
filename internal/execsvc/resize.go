package execsvc

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// resizeOf returns the progress of a resize after a decision. resizing is set if running containers may have other
// resources than the pod is allocated.
func resizeOf(d resize.Decision, resizing bool) *status.Resize {
	return &status.Resize{Pending: d.Pending, Message: d.Message, Begun: d.Begun, InProgress: resizing}
}

// resizeAfter returns the progress after the changes of the containers and then of the pod's cgroup.
func resizeAfter(r *status.Resize, res runtime.SyncResult, settled error) *status.Resize {
	out := &status.Resize{Pending: r.Pending, Message: r.Message, InProgress: res.Resizing}
	if !r.InProgress {
		return out
	}
	if err := errors.Join(res.Resize, settled); err != nil {
		out.InProgress, out.Error = true, err.Error()
	}
	return out
}

// finishResize completes a resize once all running containers have their resources. before and now are the progress.
func (a *Agent) finishResize(ctx context.Context, pod *v1.Pod, has *observed.Pod, before, now *status.Resize) {
	if before.InProgress && !now.InProgress {
		a.cfg.Runtime.ResizeSandbox(ctx, pod, has)
		a.resized(pod.UID)
	}
}

// recordResize records the events of a resize between two statuses, the first of which may be nil. pod has the
// resources that it is allocated.
func (a *Agent) recordResize(pod *v1.Pod, before, now *v1.PodStatus) {
	pending, pendingBefore := conditionOf(now, v1.PodResizePending), conditionOf(before, v1.PodResizePending)
	if pending != nil && !samePending(pending, pendingBefore) {
		reason, desired := events.ResizeDeferred, pod
		if pending.Reason == v1.PodReasonInfeasible {
			reason = events.ResizeInfeasible
		}
		if d := a.pods.Get(pod.UID); d != nil {
			desired = d
		}
		a.cfg.Events.Record(pod, "", events.Warning, reason,
			resize.Message("Pod resize "+pending.Reason, desired, pending.ObservedGeneration, pending.Message))
	}
	record := func(eventType, reason, what string, c *v1.PodCondition) {
		a.cfg.Events.Record(pod, "", eventType, reason, resize.Message("Pod resize "+what, pod, c.ObservedGeneration, c.Message))
	}
	progress, progressBefore := conditionOf(now, v1.PodResizeInProgress), conditionOf(before, v1.PodResizeInProgress)
	switch {
	case progress == nil && progressBefore != nil && !podmeta.IsTerminal(now.Phase):
		done := *progressBefore
		done.Message = ""
		record(events.Normal, events.ResizeCompleted, "completed", &done)
	case progress == nil || sameCondition(progress, progressBefore):
	case progress.Reason == v1.PodReasonError:
		record(events.Warning, events.ResizeError, "error", progress)
	default:
		record(events.Normal, events.ResizeStarted, "started", progress)
	}
}

// samePending reports whether the condition is that of the one before, which may be nil, for the same spec. Its message
// has amounts that change with each other pod, and an event of each would be noise: the kubelet's rule, too.
func samePending(c, before *v1.PodCondition) bool {
	return before != nil && c.Reason == before.Reason && c.ObservedGeneration == before.ObservedGeneration
}

// sameCondition reports whether the condition has the content of the one before, which may be nil.
func sameCondition(c, before *v1.PodCondition) bool {
	return before != nil && c.Reason == before.Reason && c.Message == before.Message && c.ObservedGeneration == before.ObservedGeneration
}

// conditionOf returns the condition of that type, or nil. The status may be nil, too.
func conditionOf(s *v1.PodStatus, t v1.PodConditionType) *v1.PodCondition {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &s.Conditions[i]
}
