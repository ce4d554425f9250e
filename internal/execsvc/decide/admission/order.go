package admission

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// This file has the order in which waiting pods are decided. Its callers hold mu.

// waiter is a pod that waits to be admitted or resized, as it is desired.
type waiter struct {
	pod *v1.Pod
	// since is when it began to wait.
	since time.Time
	// decided is set if nothing has changed since the last decision.
	decided bool
	// runs is set if a part of the pod ran at its last Check.
	runs bool
}

// wait returns the pod's waiter, which it adds if there is none.
func (q *Queue) wait(pod *v1.Pod, last *v1.PodStatus) *waiter {
	w := q.waiting[pod.UID]
	if w == nil {
		w = &waiter{since: q.cfg.Clock.Now()}
		if pending := resizePending(last); pending != nil {
			w.since = pending.LastTransitionTime.Time
		}
		q.waiting[pod.UID] = w
	}
	w.pod = pod
	return w
}

// resizePending returns the condition PodResizePending, or nil. The status may be nil.
func resizePending(s *v1.PodStatus) *v1.PodCondition {
	if s == nil {
		return nil
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == v1.PodResizePending {
			return &s.Conditions[i]
		}
	}
	return nil
}

// decideBefore decides on the waiters before w. It starts again whenever one of them makes capacity free.
func (q *Queue) decideBefore(w *waiter, s *Snapshot) {
	for list := q.before(w, s); len(list) > 0; list = q.before(w, s) {
		for requeued := q.requeued; len(list) > 0 && q.requeued == requeued; list = list[1:] {
			q.decide(list[0], s)
		}
	}
}

// before returns the undecided waiters before w, in order. Terminating pods need no capacity.
func (q *Queue) before(w *waiter, s *Snapshot) []*waiter {
	var list []*waiter
	for _, other := range q.waiting {
		if !other.decided && other != w && !s.Terminating[other.pod.UID] && q.compare(other, w) < 0 {
			list = append(list, other)
		}
	}
	slices.SortFunc(list, q.compare)
	return list
}

// compare orders waiters: pods that were admitted before the restart, critical pods, resizes, other pods. In the
// kubelet free capacity is for resizes only, because it doesn't check a rejected pod again.
func (q *Queue) compare(x, y *waiter) int {
	if by := cmp.Compare(q.rank(x), q.rank(y)); by != 0 {
		return by
	}
	if a, b := q.admitted[x.pod.UID], q.admitted[y.pod.UID]; a != nil && b != nil {
		return resize.Compare(resize.Waiting{Pod: x.pod, Allocated: a.pod, Since: x.since}, resize.Waiting{Pod: y.pod, Allocated: b.pod, Since: y.since})
	}
	return admit.Compare(x.pod, y.pod)
}

func (q *Queue) rank(w *waiter) int {
	switch {
	case q.isRestored(w.pod.UID):
		return 0
	case q.admitted[w.pod.UID] != nil:
		return 2
	case podmeta.Preempts(w.pod):
		return 1
	}
	return 3
}

// isRestored reports whether the pod was admitted before the restart, and not since.
func (q *Queue) isRestored(uid types.UID) bool {
	_, ok := q.restored[uid]
	return ok
}

// requeueOthers wakes every waiting pod except uid, because capacity may be free.
func (q *Queue) requeueOthers(uid types.UID) {
	q.requeued++
	for other := range q.waiting {
		if other != uid {
			q.requeue(other)
		}
	}
}

// requeue wakes the pod if it waits.
func (q *Queue) requeue(uid types.UID) {
	if w := q.waiting[uid]; w != nil {
		w.decided = false
		q.changes.Wake[uid] = true
	}
}
