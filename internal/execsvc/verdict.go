package execsvc

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/admission"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// This file acts on the verdict of the admission.

// reject sets a pod Failed that the kubelet would reject at admission.
func (a *Agent) reject(pod *v1.Pod, verdict admit.Verdict) error {
	var messages []string
	for _, r := range verdict.Rejected {
		messages = append(messages, r.Message)
	}
	reason, message := verdict.Rejected[0].Reason, events.Presentable(strings.Join(messages, "; "))
	if !admit.Rejects(reason) {
		return a.waitFor(pod, []admit.Lack{{Reason: reason, Message: message}})
	}
	changed := a.podErrors.set(pod, reason, message)
	defer a.reportPodErrors(changed)
	if changed {
		a.log.Error("pod was rejected", "pod", podmeta.LogName(pod), "uid", pod.UID, "reason", reason, "message", message)
		a.cfg.Events.Record(pod, "", events.Warning, reason, message)
		a.metrics.rejected.WithLabelValues(kubeletmetrics.RejectionLabel(reason)).Inc()
	}
	a.keep(pod, func(in *status.Input) {
		in.Failure = &status.Failure{Reason: reason, Message: admit.RejectedPrefix + message, Rejected: true}
	})
	if a.cfg.Final(pod) {
		// The Check of another pod must not admit it any more.
		a.release(pod.UID)
	}
	return nil
}

// preempt ends the pods that a critical one needs the capacity of. The error names the pods whose end it waits for.
func (a *Agent) preempt(pod *v1.Pod, v admission.Verdict) error {
	var names []string
	for _, other := range v.Awaited {
		name := podmeta.LogName(other)
		names = append(names, name)
		w, working := a.workers.Get(other.UID)
		if !slices.Contains(v.Preempt, other.UID) || !working || w.State >= worker.Terminating {
			continue
		}
		const message = "Preempted in order to admit critical pod"
		a.log.Warn("preempting a pod for a critical one", "pod", name, "uid", other.UID, "critical", podmeta.LogName(pod))
		a.cfg.Events.Record(other, "", events.Warning, events.Preempting, message)
		a.metrics.preempted.WithLabelValues(kubeletmetrics.ResourceLabel(string(v.Short))).Inc()
		a.workers.Kill(other.UID, worker.Kill{Failure: &status.Failure{Reason: events.Preempting, Message: message, Disrupted: true}})
	}
	slices.Sort(names)
	return fmt.Errorf("waiting for other pods to end: %s", strings.Join(names, ", "))
}

// noteAdmitted records that the pod is admitted, or waits because of lacks. pod is the version that is to run.
func (a *Agent) noteAdmitted(pod *v1.Pod, v *admission.Verdict) {
	last, seen := a.statuses.Get(pod.UID)
	if !seen && len(v.Ignored) > 0 {
		a.log.Warn("pod has fields that this version ignores",
			"pod", podmeta.LogName(pod), "uid", pod.UID, "fields", v.Ignored)
	}
	if !seen || admit.Rejected(last.Status) {
		a.metrics.countAdmitted(pod)
	}
	if seen && admit.Rejected(last.Status) {
		// It was rejected before, and can be admitted now.
		a.statuses.Delete(pod.UID)
	}
	if lacks := slices.Concat(v.Held, v.Lacks); len(lacks) > 0 {
		a.reportPodErrors(a.podErrors.set(pod, admit.UnsupportedFeature, messagesOf(lacks)))
		return
	}
	a.reportPodErrors(a.podErrors.clear(pod.UID))
}

// waitFor keeps the pod Pending, as the kubelet does if volumes can't be mounted. The worker retries, because the node
// or its runtime may change.
func (a *Agent) waitFor(pod *v1.Pod, lacks []admit.Lack) error {
	message := messagesOf(lacks)
	a.observe(pod, allWaiting(pod, runtime.ContainerCreating, message))
	for _, l := range lacks {
		a.cfg.Events.Record(pod, "", events.Warning, l.Reason, l.Message)
	}
	return fmt.Errorf("%s: the pod waits for what this node can't provide: %s", admit.UnsupportedFeature, message)
}

// heldBack returns why a running pod can't be changed as desired, or nil.
func heldBack(lacks []admit.Lack) error {
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the changed pod can't run here, so it goes on as it was: %s", admit.UnsupportedFeature, messagesOf(lacks))
}

// messagesOf returns the messages in one text, as long as that of an event: a pod may have thousands of lacks.
func messagesOf(lacks []admit.Lack) string {
	var out []string
	for _, l := range lacks {
		out = append(out, l.Message)
	}
	return events.Presentable(strings.Join(out, "; "))
}

// PodErrors returns the pods that this agent rejects, and those that lack something here, sorted by namespace and
// name, for client.ReportApplied.
func (a *Agent) PodErrors() []client.PodError { return a.podErrors.list() }

// reportPodErrors calls Config.PodErrorsChanged if the result of PodErrors has changed.
func (a *Agent) reportPodErrors(changed bool) {
	if changed && a.cfg.PodErrorsChanged != nil {
		a.cfg.PodErrorsChanged()
	}
}

// RuntimeChanged wakes the pods that wait for capacity, were rejected, or lack something, because the container
// runtime may provide it now.
func (a *Agent) RuntimeChanged() {
	a.PressureChanged()
	for _, p := range a.PodErrors() {
		a.workers.Retry(p.UID)
	}
}
