package admission

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// This file decides on one waiter. Its callers hold mu.

// decide admits the pod, or decides on its resize. A pod that is admitted with its restored allocation stays
// undecided: it waits for its resize then.
func (q *Queue) decide(w *waiter, s *Snapshot) (resize.Decision, Verdict) {
	w.decided = true
	uid := w.pod.UID
	if q.admitted[uid] == nil {
		pod := w.pod
		restored, had := q.restored[uid]
		if had {
			pod = restored.Of(pod)
		}
		v := q.admit(pod, s)
		switch {
		case len(v.Rejected) > 0 && !v.Transient():
			delete(q.waiting, uid)
			return resize.Decision{Pod: pod}, v
		case q.admitted[uid] == nil:
			return resize.Decision{Pod: pod}, v
		case had:
			w.decided = false
			return resize.Decision{Pod: pod}, v
		}
	}
	return q.resize(w, s)
}

// admit admits a pod if it fits now, and also fits beside the pods that have a reservation once these are admitted.
func (q *Queue) admit(pod *v1.Pod, s *Snapshot) Verdict {
	if r := q.reserved[pod.UID]; r != nil {
		// If other pods end meanwhile, the victims that are not being ended yet can stay.
		maps.DeleteFunc(r.victims, func(victim types.UID, _ bool) bool { return !s.Terminating[victim] })
	}
	now, later, leaving := q.others(pod.UID, s)
	v := Verdict{Verdict: admit.Check(pod, s.Node, later)}
	// During a shutdown no pod starts. For other reasons none is rejected that was admitted before the restart.
	if why, rejected := s.pressure(pod); rejected && (why.Reason == admit.NodeShutdown || !q.isRestored(pod.UID) && len(v.Rejected) == 0) {
		v.Verdict = admit.Verdict{Rejected: []admit.Rejection{why}}
	}
	// No pod ends for one that cannot start in its place.
	idle := len(v.Waiting(false)) > 0
	if !idle && q.revoke(v.Preempt) {
		return q.admit(pod, s)
	}
	fits := len(v.Rejected) == 0 && len(v.Preempt) == 0
	if fits && len(leaving) > 0 {
		soon := admit.Check(pod, s.Node, now)
		fits = len(soon.Rejected) == 0 && len(soon.Preempt) == 0
		if !fits && !podmeta.Preempts(pod) {
			v.Verdict = soon
		}
	}
	switch {
	case len(v.Rejected) > 0:
		q.unreserve(pod.UID)
	case !fits && idle:
		v.Preempt = nil
		q.unreserve(pod.UID)
	case !fits:
		q.reserve(pod, &v, s)
	default:
		delete(q.reserved, pod.UID)
		delete(q.restored, pod.UID)
		q.admitted[pod.UID] = &allocation{pod: pod}
		q.store(pod.UID)
	}
	return v
}

// resize decides on the resources of an admitted pod.
func (q *Queue) resize(w *waiter, s *Snapshot) (resize.Decision, Verdict) {
	uid := w.pod.UID
	a := q.admitted[uid]
	now, later, leaving := q.others(uid, s)
	in := resize.Input{Pod: w.pod, Allocated: a.pod, Node: s.Node, Others: later, Pressure: s.Pressure, Swaps: q.cfg.Swaps}
	d := resize.Decide(in)
	if d.Begun && len(leaving) > 0 {
		in.Others = now
		d = resize.Decide(in)
	}
	was := a.pod
	v := Verdict{Verdict: admit.Check(d.Pod, s.Node, []*v1.Pod{d.Pod})}
	if d.Pending != v1.PodReasonDeferred {
		delete(q.waiting, uid)
	}
	if changed := v.Waiting(false); w.runs && len(changed) > 0 {
		if before := admit.Check(was, s.Node, []*v1.Pod{was}); len(before.Waiting(false)) == 0 {
			// The running pod cannot become this. Nothing is allocated for the change: the pod goes on as it was.
			return resize.Decision{Pod: was}, Verdict{Verdict: before, Held: changed}
		}
	}
	// Before the first Check of the pod returns, none of its containers has other resources.
	a.pod, a.resizing = d.Pod, a.resizing || d.Begun && a.reported != nil
	if d.Begun || was.Generation != d.Pod.Generation {
		q.store(uid)
	}
	if d.Begun && resize.Grows(was, d.Pod) {
		// It has less of a resource than before.
		q.requeueOthers(uid)
	}
	return d, v
}

// others returns the other pods that have capacity now, those that will have it once the leaving ones have ended, and
// the leaving ones. A victim doesn't count against the reservation that it ends for: until it ends, the capacity is
// its own.
func (q *Queue) others(uid types.UID, s *Snapshot) (now, later, leaving []*v1.Pod) {
	for other, a := range q.admitted {
		if other == uid {
			continue
		}
		now = append(now, a.pod)
		if s.Terminating[other] || q.isVictim(other) {
			leaving = append(leaving, a.pod)
		} else {
			later = append(later, a.pod)
		}
	}
	for other, r := range q.reserved {
		if other != uid && !r.victims[uid] {
			later = append(later, r.pod)
		}
	}
	return now, later, leaving
}

func (s *Snapshot) pressure(pod *v1.Pod) (admit.Rejection, bool) {
	if s.Pressure == nil {
		return admit.Rejection{}, false
	}
	return s.Pressure(pod)
}
