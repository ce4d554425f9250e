package execsvc

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// killTimeout returns how long the kubelet waits for the end of a pod that it evicts, with a grace period in seconds.
func killTimeout(grace int64) time.Duration {
	return max(10*time.Second, time.Duration(grace+grace/2)*time.Second)
}

// isOverdue reports whether the node ends the pod to free a resource, or because it shuts down, and the pod should have
// ended by now. A pod that is removed or exceeds its own deadline is not counted, as with the kubelet.
func isOverdue(w worker.Status, now time.Time) bool {
	t := w.Termination
	return w.State == worker.Terminating && t.Failure != nil && t.Failure.Reason != events.DeadlineExceeded && now.Sub(t.Since()) >= killTimeout(t.Grace)
}

// recordOverdue records an event for each pod that has become overdue.
func (a *Agent) recordOverdue() {
	now, overdue := a.cfg.Clock.Now(), map[types.UID]bool{}
	for _, w := range a.workers.All() {
		if !isOverdue(w, now) {
			continue
		}
		if overdue[w.UID()] = true; a.overdue[w.UID()] {
			continue
		}
		a.log.Warn("a pod that this node ends hasn't ended in time; the attempts continue", "pod", podmeta.LogName(w.Pod), "uid", w.UID(), "reason", w.Termination.Failure.Reason)
		a.cfg.Events.Record(w.Pod, "", events.Warning, events.ExceededGracePeriod, "Container runtime did not kill the pod within specified grace period.")
	}
	a.overdue = overdue
}
