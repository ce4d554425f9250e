package execsvc

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/pressure"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// evictionGrace is the grace period in seconds of a pod that is evicted for what it has used up, as in the kubelet.
const evictionGrace = 1

// Evictable are the pods that run, or are about to, and that may be evicted: all but critical ones. One that was refused has nothing to give.
func (a *Agent) Evictable() []*v1.Pod {
	return slices.DeleteFunc(a.active(), func(pod *v1.Pod) bool {
		last := a.lastStatus(pod)
		return last != nil && terminal(last) || pressure.Critical(pod)
	})
}

// Evict ends a pod that has used more of the node than it may, within so many seconds. It stays failed, unless it is static: then it begins anew
// after a pause. It is false if the pod is being ended already, or gone.
func (a *Agent) Evict(uid types.UID, grace int64, failure status.Failure) bool {
	w, working := a.workers.Get(uid)
	if !working || w.State >= worker.Terminating {
		return false
	}
	a.log.Warn("pod is evicted", "pod", w.Pod.Namespace+"/"+w.Pod.Name, "uid", uid, "message", failure.Message)
	a.cfg.Events.Record(w.Pod, "", events.Warning, failure.Reason, failure.Message)
	a.workers.Kill(uid, worker.Kill{Grace: &grace, Failure: &failure})
	return true
}

// EvictOverLimit is Evict for a pod that exceeds a limit of its own.
func (a *Agent) EvictOverLimit(uid types.UID, failure status.Failure) bool {
	return a.Evict(uid, evictionGrace, failure)
}

// Gone tells whether all of the pod has ended, and its volumes are gone.
func (a *Agent) Gone(uid types.UID) bool {
	w, working := a.workers.Get(uid)
	return !working || w.State == worker.Finished
}

// eviction is the last one of a static pod, or its last end to make room.
type eviction struct {
	at time.Time
	// pause is how long after it the pod begins anew.
	pause time.Duration
}

// The pause after an eviction doubles up to longestEvictionPause, until a pod has gone on for forgivenAfter since it began anew.
const (
	firstEvictionPause   = 10 * time.Second
	longestEvictionPause = 5 * time.Minute
	forgivenAfter        = 10 * time.Minute
)

// then is the eviction at a time, which may be the same one still. first is the pause after a pod's first.
func (e eviction) then(at time.Time, first time.Duration) eviction {
	switch {
	case at.Equal(e.at):
		return e
	case e.pause == 0, at.Sub(e.at)-e.pause >= forgivenAfter:
		return eviction{at, first}
	}
	return eviction{at, min(2*e.pause, longestEvictionPause)}
}

// reviveEvicted has static pods begin anew that were evicted, or ended to make room: nobody else would make another one of them. Like a pod
// that was removed and added again, one leaves nothing behind. While the node is short of something they stay as they are.
func (a *Agent) reviveEvicted() {
	last := a.evictions
	a.evictions = map[types.UID]eviction{}
	for _, pod := range a.pods.All() {
		if e, before := last[pod.UID]; before {
			a.evictions[pod.UID] = e
		}
		s, evicted := a.beginsAnew(pod)
		if !evicted {
			continue
		}
		e := last[pod.UID].then(s.Changed, cmp.Or(a.cfg.RetryPause, firstEvictionPause))
		if e != last[pod.UID] {
			a.log.Info("pod begins anew after a pause, as this node has ended it",
				"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "reason", s.Status.Reason, "pause", e.pause)
		}
		a.evictions[pod.UID] = e
		if a.cfg.Clock.Since(e.at) < e.pause {
			continue
		}
		if _, short := a.cfg.Pressure(pod); !short {
			a.workers.Remove(pod, evictionGrace)
			a.workers.Update(pod)
		}
	}
}

// beginsAnew tells whether a desired pod is a static one that was evicted, or ended to make room, and has ended; s is its status.
func (a *Agent) beginsAnew(pod *v1.Pod) (s status.Kept, evicted bool) {
	w, working := a.workers.Get(pod.UID)
	if !working || w.State != worker.Finished || w.Removed || !criconfig.Static(pod) {
		return s, false
	}
	s, ok := a.statuses.Get(pod.UID)
	return s, ok && s.Status.Phase == v1.PodFailed && slices.Contains([]string{events.Evicted, events.Preempting}, s.Status.Reason)
}
