package status

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// setPhase sets the phase, with its reason and message. A phase that is the end stays.
func setPhase(in *Input, status *v1.PodStatus) {
	status.Phase = phase(in, status)
	for _, before := range []v1.PodPhase{in.Pod.Status.Phase, in.Previous.Phase} {
		if terminal(before) {
			status.Phase = before
		}
	}
	if in.Failure != nil && in.Previous.Phase != v1.PodSucceeded {
		status.Phase, status.Reason, status.Message = v1.PodFailed, in.Failure.Reason, in.Failure.Message
		return
	}
	for _, before := range []*v1.PodStatus{in.Previous, &in.Pod.Status} {
		if status.Phase == before.Phase {
			status.Reason, status.Message = cmp.Or(status.Reason, before.Reason), cmp.Or(status.Message, before.Message)
		}
	}
}

// phase is the pod's phase by its containers' statuses. Ephemeral containers don't count.
func phase(in *Input, status *v1.PodStatus) v1.PodPhase {
	var n tally
	n.countInit(in, status)
	n.countSidecars(in, status)
	n.countMain(in, status)
	switch {
	case n.initFailed:
		return v1.PodFailed
	case n.initPending && !begun(in), n.waiting > 0:
		return unlessTerminal(in, v1.PodPending)
	case n.running > 0 && n.unknown == 0:
		return v1.PodRunning
	case n.running > 0 || n.stopped == 0 || n.unknown > 0:
		return unlessTerminal(in, v1.PodPending)
	// From here on all main containers have stopped, and no sidecar runs.
	case n.restarting > 0 && !in.Terminal:
		return v1.PodRunning
	case n.stopped == n.succeeded:
		return v1.PodSucceeded
	default:
		return v1.PodFailed
	}
}

// unlessTerminal is p, but for a pod that won't ever get further: that has failed.
func unlessTerminal(in *Input, p v1.PodPhase) v1.PodPhase {
	if in.Terminal {
		return v1.PodFailed
	}
	return p
}

// tally counts containers by what they mean for the phase.
type tally struct {
	// initPending is set if an init container or a sidecar isn't as far as the next one needs it; initFailed, if one has failed for good.
	initPending, initFailed bool
	// unknown, running and waiting count main containers and sidecars; a sidecar that has ended counts for nothing.
	unknown, running, waiting int
	// stopped, and of these succeeded and restarting, count main containers.
	stopped, succeeded, restarting int
}

func (n *tally) countInit(in *Input, status *v1.PodStatus) {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		if actions.IsSidecar(c) {
			continue
		}
		switch end := endOf(find(status.InitContainerStatuses, c.Name)); {
		case end == nil:
			n.initPending = true
		case end.ExitCode != 0 && !in.Terminal && startsAgain(in, c, end):
			n.initPending = true
		case end.ExitCode != 0:
			n.initFailed = true
		}
	}
}

func (n *tally) countSidecars(in *Input, status *v1.PodStatus) {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		if !actions.IsSidecar(c) {
			continue
		}
		switch s := find(status.InitContainerStatuses, c.Name); {
		case s == nil:
			n.unknown++
		case s.State.Running != nil:
			n.running++
			n.initPending = n.initPending || !ptr.Deref(s.Started, false)
		case endOf(s) == nil:
			n.waiting++
			n.initPending = true
		}
	}
}

func (n *tally) countMain(in *Input, status *v1.PodStatus) {
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		s := find(status.ContainerStatuses, c.Name)
		switch end := endOf(s); {
		case s == nil:
			n.unknown++
		case s.State.Running != nil:
			n.running++
		case end == nil:
			n.waiting++
		default:
			n.stopped++
			// One that waits is about to be started again, however it ended: under Never it wouldn't wait.
			if s.State.Terminated != nil && end.ExitCode == 0 {
				n.succeeded++
			}
			if startsAgain(in, c, end) {
				n.restarting++
			}
		}
	}
}

// endOf is how a container that doesn't run has ended: now, or before it began to wait. Nil if it runs, or never has.
func endOf(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s == nil || s.State.Running != nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// startsAgain tells whether a container that has ended so is started again.
func startsAgain(in *Input, c *v1.Container, end *v1.ContainerStateTerminated) bool {
	last := in.Runtime.Latest(c.Name)
	if last == nil || last.State != observed.Exited || containerID(in, last) != end.ContainerID {
		// The status tells of an end that the runtime doesn't, or doesn't any more.
		last = &observed.Container{Name: c.Name, State: observed.Exited, ExitCode: end.ExitCode}
	}
	return end.Reason == restartingAllContainers || actions.Restarts(in.Pod, c, last)
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
