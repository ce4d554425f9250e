package execsvc

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/removals"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// boundRemovals makes the gate of removals, if there is a bound.
func (a *Agent) boundRemovals() {
	limit := a.cfg.MaxRemovalsPerMinute
	if limit > 0 {
		a.removals = removals.New(removals.Config{
			PerMinute: limit, Past: a.cfg.Restored.Removals, Next: a.apply, Ends: a.endsPod, Counts: a.canEnd, Counted: a.cfg.Store.SetRemovals,
			Held: a.removalHeld, Dropped: a.removalDropped, Clock: a.cfg.Clock,
		})
	}
	if a.cfg.Metrics != nil {
		a.cfg.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "podexecd_held_removals", Help: "Pods that the config stream has removed, and that run on as --max-removals-per-minute was reached.",
		}, func() float64 {
			if a.removals == nil {
				return 0
			}
			return float64(a.removals.Len())
		}))
	}
}

// endsPod reports whether this version, which isn't deleted, ends a desired pod: by a deadline that is new or earlier, by a
// final phase that another client has set, by another name, or as the mirror of a static pod, which doesn't run.
func (a *Agent) endsPod(version client.Pod) bool {
	pod, now := a.pods.Get(version.UID), version.Object
	if pod == nil {
		return false
	}
	before, deadline := pod.Spec.ActiveDeadlineSeconds, now.Spec.ActiveDeadlineSeconds
	return podmeta.IsMirror(now) || podmeta.FullName(now) != podmeta.FullName(pod) || podmeta.IsTerminal(now.Status.Phase) && !podmeta.IsTerminal(pod.Status.Phase) ||
		deadline != nil && (before == nil || *deadline < *before)
}

// canEnd reports whether a desired pod runs, or has run and is to run again, and isn't being ended.
func (a *Agent) canEnd(uid types.UID) bool {
	pod := a.pods.Get(uid)
	if pod == nil || pod.DeletionTimestamp != nil {
		return false
	}
	if w, working := a.workers.Get(uid); working && w.State >= worker.Terminating {
		return false
	}
	if has := a.pleg.Get(uid); has != nil && slices.ContainsFunc(has.Containers, func(c observed.Container) bool { return c.State == observed.Running }) {
		return true
	}
	kept, ok := a.statuses.Get(uid)
	if !ok || kept.Status == nil || podmeta.IsTerminal(kept.Status.Phase) {
		return false
	}
	// A pod is Pending too if one of its containers runs and another one waits for its first start.
	runs := func(s v1.ContainerStatus) bool { return s.State.Running != nil }
	return kept.Status.Phase == v1.PodRunning || slices.ContainsFunc(kept.Status.InitContainerStatuses, runs) ||
		slices.ContainsFunc(kept.Status.ContainerStatuses, runs)
}

func (a *Agent) removalHeld(uid types.UID) {
	pod := a.pods.Get(uid)
	if pod == nil {
		return
	}
	a.log.Warn("the config stream ends more pods than --max-removals-per-minute allows; this pod runs on, and is ended in turn unless the stream has it again",
		"pod", pod.Namespace+"/"+pod.Name, "uid", uid, "max_removals_per_minute", a.cfg.MaxRemovalsPerMinute)
	a.recordRemoval(pod, v1.EventTypeWarning, events.RemovalHeld, fmt.Sprintf(
		"The pod was removed from the node's config, but more than %d pods were removed within a minute: it runs on for now", a.cfg.MaxRemovalsPerMinute))
}

func (a *Agent) removalDropped(uid types.UID) {
	pod := a.pods.Get(uid)
	if pod == nil {
		return
	}
	a.log.Info("the config stream has a pod again whose removal was held; it goes on", "pod", pod.Namespace+"/"+pod.Name, "uid", uid)
	a.recordRemoval(pod, v1.EventTypeNormal, events.RemovalDropped, "The pod is in the node's config again, and goes on")
}

func (a *Agent) recordRemoval(pod *v1.Pod, eventType, reason, message string) {
	if a.cfg.Events != nil {
		a.cfg.Events.Record(pod, "", eventType, reason, message)
	}
}
