package worker

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Status is a worker as others see it.
type Status struct {
	State State
	Pod   *v1.Pod
	// Removed is set if the pod isn't desired any more.
	Removed bool
	// Termination is how the pod ends. Zero before it does.
	Termination Termination
	// Err is what the last step failed with, or nil.
	Err error
	// Retry is when the worker goes on by itself with what failed or waits. Zero: nothing does, or it waits for something that has no
	// time.
	Retry time.Time
	// WaitsFor is what the pod waits for, for people. Empty: nothing.
	WaitsFor string
}

// UID is the pod's.
func (s Status) UID() types.UID { return s.Pod.UID }

// same tells whether nothing that is worth telling differs. The end of a backoff is worked out anew each time, and never to the
// nanosecond.
func (s Status) same(o Status) bool {
	return s.State == o.State && s.Pod == o.Pod && s.Removed == o.Removed && errorText(s.Err) == errorText(o.Err) && s.WaitsFor == o.WaitsFor &&
		s.Termination.Failure == o.Termination.Failure && s.Termination.Deadline.Equal(o.Termination.Deadline) &&
		s.Retry.Sub(o.Retry).Abs() < time.Second
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The values of Status.WaitsFor, but for that of a pod whose name is taken.
const (
	waitsForBackoff = "its backoff to end"
	waitsForRetry   = "another try after a failure"
	waitsForNetwork = "the node's network"
	waitsForOffer   = "being offered again after it was refused"
)

func waitsForName(other types.UID) string { return "pod " + string(other) + " of the same name to end" }

// status is the worker's. The caller holds mu.
func (w *Workers) status(uid types.UID, k *worker) Status {
	m := k.machine
	s := Status{State: m.state, Pod: m.pod, Removed: m.removed, Err: k.err, Retry: k.retry, WaitsFor: k.waitsFor}
	if m.state >= Terminating {
		s.Termination = m.end
	}
	if queue := w.queues[fullName(m.pod)]; m.state == Waiting && len(queue) > 0 && queue[0] != uid {
		s.WaitsFor = waitsForName(queue[0])
	}
	return s
}

// tell calls Changed if the worker of the pod isn't as it was when that was called last. The caller doesn't hold mu.
func (w *Workers) tell(uid types.UID) {
	if w.cfg.Changed != nil && w.news(uid) {
		w.cfg.Changed(uid)
	}
}

func (w *Workers) news(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.workers[uid]
	if k == nil {
		return true
	}
	now := w.status(uid, k)
	news := !now.same(k.told)
	k.told = now
	return news
}
