package status

import (
	"github.com/podstream/podstream/internal/execsvc/observed"
	v1 "k8s.io/api/core/v1"
)

// setPhase sets the phase, with its reason and message. A phase that is the end stays.
func setPhase(in *Input, status *v1.PodStatus) {
	status.Phase = phase(in, status)
	if !terminal(status.Phase) {
		for _, before := range []v1.PodPhase{in.Pod.Status.Phase, in.Previous.Phase} {
			if terminal(before) {
				status.Phase = before
			}
		}
	}
	if in.Failure != nil {
		status.Phase, status.Reason, status.Message = v1.PodFailed, in.Failure.Reason, in.Failure.Message
		return
	}
	if status.Phase == in.Previous.Phase {
		status.Reason, status.Message = in.Previous.Reason, in.Previous.Message
	}
}

// phase is the pod's phase by its containers' statuses.
func phase(in *Input, status *v1.PodStatus) v1.PodPhase {
	initPending, initFailed := tallyInit(in, status)
	n := tallyMain(in, status)
	policy := in.Pod.Spec.RestartPolicy
	switch {
	case initFailed && (policy == v1.RestartPolicyNever || in.Terminal):
		return v1.PodFailed
	case (initPending && !begun(in)) || n.waiting > 0:
		return unlessTerminal(in, v1.PodPending)
	case n.running > 0 && n.unknown == 0:
		return v1.PodRunning
	case n.running > 0 || n.stopped == 0 || n.unknown > 0:
		return unlessTerminal(in, v1.PodPending)
	// From here on all main containers have stopped.
	case policy == v1.RestartPolicyAlways && !in.Terminal:
		return v1.PodRunning
	case n.stopped == n.succeeded:
		return v1.PodSucceeded
	case policy == v1.RestartPolicyNever || in.Terminal:
		return v1.PodFailed
	default:
		return v1.PodRunning
	}
}

// unlessTerminal is p, but for a pod that won't ever get further: that has failed.
func unlessTerminal(in *Input, p v1.PodPhase) v1.PodPhase {
	if in.Terminal {
		return v1.PodFailed
	}
	return p
}

func tallyInit(in *Input, status *v1.PodStatus) (pending, failed bool) {
	for i := range in.Pod.Spec.InitContainers {
		s := find(status.InitContainerStatuses, in.Pod.Spec.InitContainers[i].Name)
		if s == nil {
			pending = true
			continue
		}
		end := s.State.Terminated
		if s.State.Waiting != nil {
			end = s.LastTerminationState.Terminated
		}
		switch {
		case end == nil:
			pending = true
		case end.ExitCode != 0:
			failed = true
			// Under another policy than Never it is tried again.
			pending = pending || in.Pod.Spec.RestartPolicy != v1.RestartPolicyNever
		}
	}
	return pending, failed
}

// tally counts the main containers by state.
type tally struct{ unknown, running, waiting, stopped, succeeded int }

func tallyMain(in *Input, status *v1.PodStatus) tally {
	var n tally
	for i := range in.Pod.Spec.Containers {
		s := find(status.ContainerStatuses, in.Pod.Spec.Containers[i].Name)
		switch {
		case s == nil:
			n.unknown++
		case s.State.Running != nil:
			n.running++
		case s.State.Terminated != nil:
			n.stopped++
			if s.State.Terminated.ExitCode == 0 {
				n.succeeded++
			}
		case s.LastTerminationState.Terminated != nil:
			n.stopped++
		default:
			n.waiting++
		}
	}
	return n
}

// begun tells whether a main container has started in the pod's present sandbox. After that, what becomes of the init
// containers (they may be removed) doesn't matter; in a new sandbox they run again, and the pod is back to Pending.
func begun(in *Input) bool {
	if len(in.Runtime.Sandboxes) == 0 {
		return false
	}
	for i := range in.Pod.Spec.Containers {
		c := in.Runtime.Latest(in.Pod.Spec.Containers[i].Name)
		if c != nil && c.SandboxID == in.Runtime.Sandboxes[0].ID && (c.State == observed.Running || c.State == observed.Exited) {
			return true
		}
	}
	return false
}

// terminal tells whether a pod in this phase stays in it.
func terminal(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }
