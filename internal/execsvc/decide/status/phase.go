package status

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// setPhase sets the phase, with its reason and message. A terminal phase stays. A pod that the node ended, and whose
// containers all ended with 0, has succeeded, without a reason: as in the kubelet.
func setPhase(in *Input, status *v1.PodStatus) {
	status.Phase = phase(in, status)
	if in.Ending && in.Failure == nil && !in.Terminal && podmeta.IsTerminal(status.Phase) {
		status.Phase = cmp.Or(in.Previous.Phase, v1.PodRunning)
	}
	for _, before := range []v1.PodPhase{in.Pod.Status.Phase, in.Previous.Phase} {
		if podmeta.IsTerminal(before) {
			status.Phase = before
		}
	}
	if in.Failure != nil && in.Previous.Phase != v1.PodSucceeded && !endedWell(in, status) {
		status.Phase, status.Reason, status.Message = v1.PodFailed, in.Failure.Reason, in.Failure.Message
		return
	}
	for _, before := range []*v1.PodStatus{in.Previous, &in.Pod.Status} {
		if status.Phase == before.Phase {
			status.Reason, status.Message = cmp.Or(status.Reason, before.Reason), cmp.Or(status.Message, before.Message)
		}
	}
}

// endedWell reports whether the node has evicted or preempted a pod whose containers have all ended with 0. A static
// pod that exceeded a limit of its own stays Failed, because it starts again by the reason, and has no condition.
func endedWell(in *Input, status *v1.PodStatus) bool {
	return in.Terminal && status.Phase == v1.PodSucceeded &&
		(in.Failure.Disrupted || in.Failure.Reason == events.Evicted && !podmeta.IsStatic(in.Pod))
}

// phase returns the pod's phase by its containers' statuses. Ephemeral containers don't count.
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

// unlessTerminal returns p, or Failed for a pod that starts no containers any more.
func unlessTerminal(in *Input, p v1.PodPhase) v1.PodPhase {
	if in.Terminal {
		return v1.PodFailed
	}
	return p
}

// tally counts containers by their effect on the phase.
type tally struct {
	// initPending is set if an init container or a sidecar isn't done or started yet, as the next one requires;
	// initFailed, if one has failed for good.
	initPending, initFailed bool
	// unknown, running and waiting count main containers and sidecars. An ended sidecar isn't counted.
	unknown, running, waiting int
	// stopped, and of these succeeded and restarting, count main containers.
	stopped, succeeded, restarting int
}

func (n *tally) countInit(in *Input, status *v1.PodStatus) {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		if podmeta.IsSidecar(c) {
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
		if !podmeta.IsSidecar(c) {
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
			// A waiting container is about to restart, however it ended: under Never it wouldn't wait.
			if s.State.Terminated != nil && end.ExitCode == 0 {
				n.succeeded++
			}
			if startsAgain(in, c, end) {
				n.restarting++
			}
		}
	}
}

// endOf returns the end of a container that doesn't run: its present one, or the one before it waited. Nil if it runs,
// or never has.
func endOf(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s == nil || s.State.Running != nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// startsAgain reports whether a container with this end restarts.
func startsAgain(in *Input, c *v1.Container, end *v1.ContainerStateTerminated) bool {
	last := in.latest(c.Name)
	if last != nil && last.State == observed.Created {
		// Its successor is already created.
		return true
	}
	if last == nil || last.State != observed.Exited || containerID(in, last) != end.ContainerID {
		// The status has an end that the runtime doesn't report, or no longer does.
		last = &observed.Container{Name: c.Name, State: observed.Exited, ExitCode: end.ExitCode}
	}
	return end.Reason == restartingAllContainers || actions.Restarts(in.Pod, c, last)
}

// begun reports whether a main container has started in the pod's present sandbox. After that the init containers don't
// count (they may be removed). In a new sandbox they run again, and the pod is back to Pending.
func begun(in *Input) bool {
	if len(in.Runtime.Sandboxes) == 0 {
		return false
	}
	for i := range in.Pod.Spec.Containers {
		c := in.latest(in.Pod.Spec.Containers[i].Name)
		if c != nil && c.SandboxID == in.Runtime.Sandboxes[0].ID && (c.State == observed.Running || c.State == observed.Exited) {
			return true
		}
	}
	return false
}
