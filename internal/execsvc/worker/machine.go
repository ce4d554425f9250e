package worker

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// State is where a pod stands in its life.
type State int

// The states, in the order in which a pod passes them.
const (
	// Waiting is for another pod of the same full name to end.
	Waiting State = iota + 1
	Syncing
	Terminating
	// Terminated is: nothing runs; what the pod left on the node is being cleaned up.
	Terminated
	// Finished is: there is nothing more to do while the pod stays desired.
	Finished
)

// step is what a worker does next.
type step int

const (
	// stepNothing: wait to be woken.
	stepNothing step = iota
	stepSync
	stepTerminate
	stepCleanUp
	stepPurge
	// stepForget ends the worker.
	stepForget
)

// machine is the life of one pod. It is pure: it decides, and does nothing.
type machine struct {
	state State
	// pod is what is desired, or was last.
	pod *v1.Pod
	// grace is the grace period in seconds for the termination, once that is under way.
	grace int64
	// removed is set when the pod isn't desired any more: then all that is left of it is purged.
	removed bool
	// purged is set when that is done.
	purged bool
	// next is a new incarnation of the same UID that waits for this one's end.
	next *v1.Pod
}

// newMachine is the life of a pod that is desired, at its beginning.
func newMachine(pod *v1.Pod) *machine {
	m := &machine{state: Waiting}
	m.update(pod)
	return m
}

// update takes a new or changed pod.
func (m *machine) update(pod *v1.Pod) {
	if m.removed {
		m.next = pod
		return
	}
	m.pod = pod
	if pod.DeletionTimestamp != nil {
		m.end(graceOf(pod))
	}
}

// remove takes the word that the pod isn't desired any more. grace is in seconds.
func (m *machine) remove(grace int64) {
	m.next = nil
	m.removed = true
	m.end(grace)
}

// end starts the termination, or shortens the one under way.
func (m *machine) end(grace int64) {
	grace = max(grace, 1)
	switch {
	case m.state == Waiting, m.state == Syncing:
		// One that waits never starts, but it may run since an earlier life of this agent: it is stopped like any other.
		m.state, m.grace = Terminating, grace
	case m.state == Terminating && grace < m.grace:
		m.grace = grace
	}
}

// step is what to do now. mayStart tells whether the pod's full name is free for it.
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
	return stepForget
}

// done takes the word that a step went well. terminal is SyncPod's: the pod has run to its end by itself.
func (m *machine) done(s step, terminal bool) {
	switch {
	case s == stepSync && terminal && m.state == Syncing:
		m.end(graceOf(m.pod))
	case s == stepTerminate && m.state == Terminating:
		m.state = Terminated
	case s == stepCleanUp && m.state == Terminated:
		m.state = Finished
	case s == stepPurge:
		m.purged = true
	}
}

// reborn is the machine of the incarnation that waited for this one's end, or nil.
func (m *machine) reborn() *machine {
	if m.next == nil {
		return nil
	}
	return newMachine(m.next)
}

// holdsName tells whether the pod keeps others of its full name from starting: from when it may run until nothing of it does.
func (m *machine) holdsName() bool {
	return m.state == Syncing || m.state == Terminating || m.state == Terminated
}

// graceOf is the grace period of a deletion, or else the pod's own, in seconds.
func graceOf(pod *v1.Pod) int64 {
	return *cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, ptr.To[int64](v1.DefaultTerminationGracePeriodSeconds))
}

func fullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }

// Status is a worker as others see it.
type Status struct {
	State State
	Pod   *v1.Pod
	// Removed is set if the pod isn't desired any more.
	Removed bool
	// Err is what the last step failed with, or nil.
	Err error
}

// UID is the pod's.
func (s Status) UID() types.UID { return s.Pod.UID }
