package worker

import (
	"time"

	v1 "k8s.io/api/core/v1"
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
	// end is the termination, once that has begun.
	end Termination
	// removed is set when the pod isn't desired any more: then all that is left of it is purged.
	removed bool
	// purged is set when that is done.
	purged bool
	// next is a new incarnation of the same UID that waits for this one's end.
	next *v1.Pod
}

// newMachine is the life of a pod that is desired, at its beginning.
func newMachine(now time.Time, pod *v1.Pod) *machine {
	m := &machine{state: Waiting}
	m.update(now, pod)
	return m
}

// update takes a new or changed pod.
func (m *machine) update(now time.Time, pod *v1.Pod) {
	if m.removed {
		m.next = pod
		return
	}
	m.pod = pod
	if pod.DeletionTimestamp != nil {
		m.terminate(NewTermination(now, graceOf(pod), nil))
	}
}

// remove takes the word that the pod isn't desired any more. grace is in seconds.
func (m *machine) remove(now time.Time, grace int64) {
	m.next = nil
	m.removed = true
	m.terminate(NewTermination(now, grace, nil))
}

// kill takes the word that the pod must end though it stays desired. It is false if nothing of it runs any more.
func (m *machine) kill(now time.Time, k Kill) bool {
	grace := graceOf(m.pod)
	if k.Grace != nil {
		grace = *k.Grace
	}
	m.terminate(NewTermination(now, grace, k.Failure))
	return m.state == Terminating
}

// resume takes up a termination that an earlier life of this agent began.
func (m *machine) resume(t Termination, removed bool) {
	m.removed = m.removed || removed
	m.terminate(t)
}

// terminate starts the termination, or shortens the one under way. Why a pod ends is what it began with.
func (m *machine) terminate(t Termination) {
	switch {
	case m.state == Waiting, m.state == Syncing:
		// One that waits never starts, but it may run since an earlier life of this agent: it is stopped like any other.
		m.state, m.end = Terminating, t
	case m.state == Terminating && t.Deadline.Before(m.end.Deadline):
		m.end.Deadline, m.end.Grace = t.Deadline, t.Grace
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

// done takes the word that a step went well; res is SyncPod's.
func (m *machine) done(now time.Time, s step, res Result) {
	switch {
	case s == stepSync && m.state == Syncing && (res.Terminal || res.Failure != nil):
		m.terminate(NewTermination(now, graceOf(m.pod), res.Failure))
	case s == stepTerminate && m.state == Terminating:
		m.state = Terminated
	case s == stepCleanUp && m.state == Terminated:
		m.state = Finished
	case s == stepPurge:
		m.purged = true
	}
}

// reborn is the machine of the incarnation that waited for this one's end, or nil.
func (m *machine) reborn(now time.Time) *machine {
	if m.next == nil {
		return nil
	}
	return newMachine(now, m.next)
}

// holdsName tells whether the pod keeps others of its full name from starting: from when it may run until nothing of it does.
func (m *machine) holdsName() bool {
	return m.state == Syncing || m.state == Terminating || m.state == Terminated
}

func fullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }
