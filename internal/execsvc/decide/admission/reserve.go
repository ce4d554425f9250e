package admission

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file reserves the capacity that other pods make free for critical ones. Its callers hold mu.

// reservation is the capacity that a critical pod gets once its victims have ended.
type reservation struct {
	pod *v1.Pod
	// victims are the pods that end for it and have not ended yet.
	victims map[types.UID]bool
}

// reserve reserves capacity for a critical pod until its victims have ended. It sets in v which pods have to be ended,
// and whose end the pod waits for. Pods that end anyway are counted first, so that fewer victims are needed, or none.
func (q *Queue) reserve(pod *v1.Pod, v *Verdict, s *Snapshot) {
	r := q.reserved[pod.UID]
	if r == nil {
		r = &reservation{victims: map[types.UID]bool{}}
		q.reserved[pod.UID] = r
	}
	r.pod = pod
	for _, victim := range v.Preempt {
		r.victims[victim] = true
	}
	v.Preempt = nil
	for victim := range r.victims {
		if !s.Terminating[victim] {
			v.Preempt = append(v.Preempt, victim)
		}
	}
	slices.Sort(v.Preempt)
	_, _, v.Awaited = q.others(pod.UID, s)
}

// isVictim reports whether the pod ends for a critical one.
func (q *Queue) isVictim(uid types.UID) bool {
	for _, r := range q.reserved {
		if r.victims[uid] {
			return true
		}
	}
	return false
}

// revoke cancels the reservations of the given pods, which go on waiting. It reports whether there were any.
func (q *Queue) revoke(uids []types.UID) bool {
	some := false
	for _, uid := range uids {
		if q.reserved[uid] == nil {
			continue
		}
		some = true
		delete(q.reserved, uid)
		q.requeue(uid)
	}
	return some
}

// unreserve cancels the pod's reservation, if there is one.
func (q *Queue) unreserve(uid types.UID) {
	if q.reserved[uid] != nil {
		delete(q.reserved, uid)
		q.requeueOthers(uid)
	}
}
