package execsvc

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/shutdown"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// evictionGrace is the grace period in seconds of a pod that is evicted for its own use of a resource, as in the
// kubelet.
const evictionGrace = 1

// Evictable returns the pods that may be evicted: all except critical pods, and pods that have ended or were rejected.
// Terminating pods are among them, because they use resources until the end of their grace period.
func (a *Agent) Evictable() []*v1.Pod {
	return slices.DeleteFunc(append(a.active(), a.terminating()...), func(pod *v1.Pod) bool {
		last := a.lastStatus(pod)
		return last != nil && podmeta.IsTerminal(last.Phase) || podmeta.SparedByEviction(pod)
	})
}

// Evict ends a pod with that grace period in seconds. The pod ends for good, unless it is static: then it starts again
// after a pause. The grace period of a terminating pod is only shortened. Evict returns false if the pod ends at least
// as soon already, or is gone.
func (a *Agent) Evict(uid types.UID, grace int64, failure status.Failure) bool {
	w, working := a.workers.Get(uid)
	if !working || w.State > worker.Terminating {
		return false
	}
	if w.State == worker.Terminating && !worker.NewTermination(a.cfg.Clock.Now(), grace, nil).Deadline.Before(w.Termination.Deadline) {
		return false
	}
	a.log.Warn("pod is evicted", "pod", podmeta.LogName(w.Pod), "uid", uid, "grace_seconds", grace, "message", failure.Message)
	a.cfg.Events.Record(w.Pod, "", events.Warning, failure.Reason, failure.Message)
	a.workers.Kill(uid, worker.Kill{Grace: &grace, Failure: &failure})
	return true
}

// EvictOverLimit evicts a pod that exceeds a limit of its own.
func (a *Agent) EvictOverLimit(uid types.UID, failure status.Failure) bool {
	return a.Evict(uid, evictionGrace, failure)
}

// restartEvicted starts static pods again that were evicted or preempted: no controller would replace them. As with a
// pod that is removed and added again, nothing of the old pod is left. While the node is short of a resource, they
// aren't started. Pods that a shutdown of the machine has ended start again without a pause, once there is none.
func (a *Agent) restartEvicted() {
	last := a.evictions
	a.evictions = map[types.UID]pastEviction{}
	for _, pod := range a.pods.All() {
		if e, before := last[pod.UID]; before {
			a.evictions[pod.UID] = e
		}
		s, evicted := a.startsAgain(pod)
		if !evicted {
			continue
		}
		if message, _ := status.EndMessage(s.Status); message == shutdown.Message {
			a.startAgain(pod)
			continue
		}
		e := last[pod.UID].then(s.Changed, cmp.Or(a.cfg.RetryPause, firstEvictionPause))
		if e != last[pod.UID] {
			a.log.Info("a static pod that was evicted or preempted starts again after a pause",
				"pod", podmeta.LogName(pod), "uid", pod.UID, "reason", s.Status.Reason, "pause", e.pause)
		}
		a.evictions[pod.UID] = e
		// The time of the eviction may come from the store.
		if now := a.cfg.Clock.Now(); now.Sub(a.ended.Of(string(pod.UID), now, e.at)) < e.pause {
			continue
		}
		a.startAgain(pod)
	}
}

// startAgain starts a pod again, unless the node is short of a resource, or the machine shuts down.
func (a *Agent) startAgain(pod *v1.Pod) {
	if _, short := a.cfg.Pressure(pod); !short {
		a.workers.Remove(pod, evictionGrace)
		a.workers.Update(pod)
	}
}

// startsAgain reports whether a desired pod is a static one that was evicted or preempted, or that a shutdown has
// ended, and has ended; s is its status.
func (a *Agent) startsAgain(pod *v1.Pod) (s status.Kept, evicted bool) {
	w, working := a.workers.Get(pod.UID)
	if !working || w.State != worker.Finished || w.Removed || !podmeta.IsStatic(pod) {
		return s, false
	}
	s, ok := a.statuses.Get(pod.UID)
	return s, ok && (s.Status.Phase == v1.PodFailed && slices.Contains([]string{events.Evicted, events.Preempting}, s.Status.Reason) ||
		status.EndedByNode(s.Status))
}
