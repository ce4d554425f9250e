package worker

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Status is the visible state of a worker.
type Status struct {
	State State
	Pod   *v1.Pod
	// Removed is set if the pod is not desired any more.
	Removed bool
	// Termination is set from Terminating on.
	Termination Termination
	// Err is the error of the last step, or nil.
	Err error
	// Retry is the time of the next attempt. Zero: the pod waits for nothing, or for an event without a known time.
	Retry time.Time
	// WaitsFor names what the pod waits for, for display. Empty: it waits for nothing.
	WaitsFor string
	// Arrived is when the pod's worker started.
	Arrived time.Time
}

// UID returns the pod's UID.
func (s Status) UID() types.UID { return s.Pod.UID }

// same reports whether two statuses differ in nothing but less than a second of Retry: it is computed again at each
// step.
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

// The values of Status.WaitsFor. A pod whose full name is taken has that of waitsForName.
const (
	waitsForBackoff   = "its backoff to end"
	waitsForRetry     = "a retry after a failure"
	waitsForNetwork   = "the node's network"
	waitsForAdmission = "a retry after it was rejected"
)

func waitsForName(other types.UID) string { return "pod " + string(other) + " of the same name to end" }

// status returns the worker's status. The caller holds mu.
func (w *Workers) status(uid types.UID, k *worker) Status {
	m := k.machine
	s := Status{State: m.state, Pod: m.pod, Removed: m.removed, Err: k.err, Retry: k.retry, WaitsFor: k.waitsFor, Arrived: k.progress.arrived}
	if m.state >= Terminating {
		s.Termination = m.end
	}
	if queue := w.queues[podmeta.FullName(m.pod)]; m.state == Waiting && len(queue) > 0 && queue[0] != uid {
		s.WaitsFor = waitsForName(queue[0])
	}
	return s
}

// report calls Config.Changed if the pod's status has changed since the last report. The caller doesn't hold mu.
func (w *Workers) report(uid types.UID) {
	if w.cfg.Changed != nil && w.changed(uid) {
		w.cfg.Changed(uid)
	}
}

func (w *Workers) changed(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.workers[uid]
	if k == nil {
		return true
	}
	now := w.status(uid, k)
	changed := !now.same(k.reported)
	k.reported = now
	return changed
}
