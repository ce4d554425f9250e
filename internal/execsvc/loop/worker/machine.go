package worker

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// State is the state of a pod's worker.
type State int

// The states, in the order in which a pod passes them.
const (
	// Waiting: another pod of the same full name has to end first.
	Waiting State = iota + 1
	Syncing
	Terminating
	// Terminated: nothing of the pod runs; its volumes and cgroups are being removed.
	Terminated
	// Finished: there is nothing to do while the pod stays desired.
	Finished
)

// step is the next step of a worker.
type step int

const (
	// stepNothing waits until the worker is woken.
	stepNothing step = iota
	stepSync
	stepTerminate
	stepCleanUp
	stepPurge
	// stepDrop ends the worker.
	stepDrop
)

// machine is the state machine of one pod. It is pure: it only decides.
type machine struct {
	state State
	// pod is the version that is desired, or was desired last.
	pod *v1.Pod
	// end is the termination, from Terminating on.
	end Termination
	// removed is set if the pod is not desired any more: it is purged after its end.
	removed bool
	// purged is set after that.
	purged bool
	// next is a pod that was added with the same UID after the removal, and starts after this one's end.
	next *v1.Pod
}

// newMachine returns the state machine of a desired pod.
func newMachine(now time.Time, pod *v1.Pod) *machine {
	m := &machine{state: Waiting}
	m.update(now, pod)
	return m
}

// update sets the desired pod.
func (m *machine) update(now time.Time, pod *v1.Pod) {
	if m.removed {
		m.next = pod
		return
	}
	if m.pod != nil && podmeta.FullName(pod) != podmeta.FullName(m.pod) {
		// It is another pod. The queue of the name, the logs and the sandbox are those of the old one.
		m.remove(now, podmeta.GracePeriod(m.pod))
		m.next = pod
		return
	}
	m.pod = pod
	if pod.DeletionTimestamp != nil {
		m.terminate(NewTermination(now, podmeta.GracePeriod(pod), nil))
	}
}

// remove ends the pod, which is not desired any more. grace is in seconds.
func (m *machine) remove(now time.Time, grace int64) {
	m.next = nil
	m.removed = true
	m.terminate(NewTermination(now, grace, nil))
}

// kill ends the pod, which stays desired. It returns false if the pod has ended already.
func (m *machine) kill(now time.Time, k Kill) bool {
	grace := podmeta.GracePeriod(m.pod)
	if k.Grace != nil {
		grace = *k.Grace
	}
	m.terminate(NewTermination(now, grace, k.Failure))
	return m.state == Terminating
}

// resume continues a termination that began before the restart.
func (m *machine) resume(t Termination, removed bool) {
	m.removed = m.removed || removed
	m.terminate(t)
}

// terminate starts the termination, or shortens the current one. The first failure becomes the reason, also if the pod
// is evicted while it is being deleted.
func (m *machine) terminate(t Termination) {
	switch {
	case m.state == Waiting, m.state == Syncing:
		// A waiting pod is stopped too, because it may run since before the restart.
		m.state, m.end = Terminating, t
	case m.state == Terminating && t.Deadline.Before(m.end.Deadline):
		m.end.Deadline, m.end.Grace = t.Deadline, t.Grace
		if m.end.Failure == nil {
			m.end.Failure = t.Failure
		}
	}
}

// step returns the next step. mayStart reports whether the pod holds its full name.
func (m *machine) step(mayStart bool) step {
	switch m.state {
	case Waiting:
		if !mayStart {
			return stepNothing
		}
		m.state = Syncing
		return stepSync
	case Syncing:
		return stepSync
	case Terminating:
		return stepTerminate
	case Terminated:
		return stepCleanUp
	}
	switch {
	case !m.removed:
		return stepNothing
	case !m.purged:
		return stepPurge
	}
	return stepDrop
}

// done records that a step succeeded; res is the result of SyncPod.
func (m *machine) done(now time.Time, s step, res Result) {
	switch {
	case s == stepSync && m.state == Syncing && (res.Terminal || res.Failure != nil):
		m.terminate(NewTermination(now, podmeta.GracePeriod(m.pod), res.Failure))
	case s == stepTerminate && m.state == Terminating:
		m.state = Terminated
	case s == stepCleanUp && m.state == Terminated:
		m.state = Finished
	case s == stepPurge:
		m.purged = true
	}
}

// successor returns the state machine of the pod in next, or nil.
func (m *machine) successor(now time.Time) *machine {
	if m.next == nil {
		return nil
	}
	return newMachine(now, m.next)
}

// holdsName reports whether other pods of the same full name have to wait: from the first sync until the pod is
// cleaned up.
func (m *machine) holdsName() bool {
	return m.state == Syncing || m.state == Terminating || m.state == Terminated
}
