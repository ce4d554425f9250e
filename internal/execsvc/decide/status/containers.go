package status

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// The reasons of container states, as in the kubelet.
const (
	containerCreating      = "ContainerCreating"
	podInitializing        = "PodInitializing"
	completed              = "Completed"
	failed                 = "Error"
	containerStatusUnknown = "ContainerStatusUnknown"
)

// kind is the list of the pod that a container is in. A sidecar is an init container that always restarts.
type kind int

const (
	initContainer kind = iota
	sidecar
	mainContainer
	ephemeral
)

// lostExitCode is the exit code of a container whose end wasn't observed: that of a killed one.
const lostExitCode = 137

// setContainers sets the statuses of all containers: of init containers in the order of the pod, of others sorted by
// name.
func setContainers(in *Input, status *v1.PodStatus) {
	spec := &in.Pod.Spec
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		k := initContainer
		if podmeta.IsSidecar(c) {
			k = sidecar
		}
		before := find(in.Previous.InitContainerStatuses, c.Name)
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(in, c, before, k))
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		before := find(in.Previous.ContainerStatuses, c.Name)
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(in, c, before, mainContainer))
	}
	for i := range spec.EphemeralContainers {
		c := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		before := find(in.Previous.EphemeralContainerStatuses, c.Name)
		status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, containerStatus(in, &c, before, ephemeral))
	}
	byName := func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(status.ContainerStatuses, byName)
	slices.SortFunc(status.EphemeralContainerStatuses, byName)
}

// containerStatus returns the status of one container. previous may be nil.
func containerStatus(in *Input, c *v1.Container, previous *v1.ContainerStatus, k kind) v1.ContainerStatus {
	status := v1.ContainerStatus{Name: c.Name, Image: c.Image}
	latest := in.latest(c.Name)
	switch {
	case latest != nil:
		takeOver(in, &status, latest, previous)
		status.Resources, status.AllocatedResources = actualResources(c, latest), c.Resources.Requests.DeepCopy()
	case previous != nil:
		remembered(in, &status, previous)
	default:
		status.State = waiting(defaultReason(in.Pod), "")
	}
	if latest == nil && k == initContainer && status.State.Waiting != nil && in.initialized {
		status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: completed, Message: initDone}}
	} else if in.Terminal {
		concludeContainer(in, &status)
	} else if why := waitsFor(in, &status, previous); why != nil && shouldStart(in.Pod, c, latest, k) {
		if status.State.Terminated != nil {
			status.LastTerminationState = status.State
		}
		reason := why.Reason
		if reason == containerCreating {
			reason = defaultReason(in.Pod)
		}
		status.State = waiting(reason, why.Message)
	}
	status.VolumeMounts = volumeMounts(in, c)
	setReady(in, &status, c, previous, k)
	return status
}

// initDone is the message of an init container that is in neither the runtime nor the previous status, although the pod
// was initialized.
const initDone = "The container isn't in the container runtime any more; as the pod has been initialized, it has ended well"

// takeOver copies the container's state in the runtime.
func takeOver(in *Input, status *v1.ContainerStatus, c *observed.Container, previous *v1.ContainerStatus) {
	status.ContainerID = containerID(in, c)
	status.RestartCount = restartCount(c, status.ContainerID, previous)
	status.ImageID, status.User, status.StopSignal = c.ImageRef, c.User, c.StopSignal
	if c.Image != "" {
		status.Image = c.Image
	}
	switch c.State {
	case observed.Running:
		status.State.Running = &v1.ContainerStateRunning{StartedAt: stamp(c.Started)}
	case observed.Exited:
		status.State.Terminated = ended(in, c, previous)
	case observed.Unknown:
		// It ran, and its state is unknown now: "waiting" would take the pod back to Pending.
		if previous != nil && previous.ContainerID == status.ContainerID && previous.State.Waiting == nil {
			status.State.Terminated = lost(status.ContainerID, "The container could not be located when the pod was terminated")
			break
		}
		status.State = waiting(defaultReason(in.Pod), "")
	default:
		status.State = waiting(defaultReason(in.Pod), "")
	}
	status.LastTerminationState = lastState(in, status, c, previous)
}

// restartCount never falls, although attempts start at 0 again if no dead container is left.
func restartCount(c *observed.Container, id string, previous *v1.ContainerStatus) int32 {
	count := int32(c.Attempt) //nolint:gosec // The count stays far below the limit.
	if previous == nil {
		return count
	}
	least := previous.RestartCount
	if previous.ContainerID != "" && previous.ContainerID != id && previous.State.Waiting == nil {
		least++
	}
	return max(count, least)
}

// lastState returns the end before the container of status. The runtime keeps one dead container at most, and none
// after a clean-up, so the previous status fills in.
func lastState(in *Input, status *v1.ContainerStatus, c *observed.Container, previous *v1.ContainerStatus) v1.ContainerState {
	for i := range in.Runtime.Containers {
		before := &in.Runtime.Containers[i]
		if before.Name == c.Name && before.ID != c.ID && before.State == observed.Exited {
			return v1.ContainerState{Terminated: ended(in, before, previous)}
		}
	}
	switch {
	case previous == nil:
		return v1.ContainerState{}
	case previous.State.Terminated != nil && previous.ContainerID != status.ContainerID:
		return *previous.State.DeepCopy()
	}
	last := previous.LastTerminationState.DeepCopy()
	// While the container waited for its restart, this was its own end.
	if last.Terminated != nil && last.Terminated.ContainerID == status.ContainerID {
		return v1.ContainerState{}
	}
	return *last
}

// remembered sets the status of a container that the runtime doesn't have, but the previous status does.
func remembered(in *Input, status, previous *v1.ContainerStatus) {
	if previous.State.Waiting == nil && in.restarting {
		// Its end doesn't count, whatever it was: it restarts with all others.
		end := previous.State.Terminated.DeepCopy()
		if end == nil {
			end = lost(previous.ContainerID, "The container was removed so that all containers of the pod restart")
		}
		end.Reason = restartingAllContainers
		status.State = waiting(restartingAllContainers, "All containers of the pod restart")
		status.LastTerminationState.Terminated = end
		status.RestartCount = previous.RestartCount + 1
		return
	}
	if previous.State.Terminated != nil {
		previous.DeepCopyInto(status)
		return
	}
	status.RestartCount = previous.RestartCount
	status.LastTerminationState = *previous.LastTerminationState.DeepCopy()
	status.State = waiting(defaultReason(in.Pod), "")
	if previous.State.Running == nil {
		return
	}
	// It ran and was removed. Its end must be shown, or the pod would go back to Pending.
	status.LastTerminationState.Terminated = lost(previous.ContainerID,
		"The container could not be located when the pod was deleted.  The container used to be Running")
	if in.Pod.DeletionTimestamp == nil {
		status.RestartCount++
	}
}

// waitsFor returns the reason why the container can't start, or nil. The previous reason stays until the input has
// another, so that a container in backoff doesn't flap between two states.
func waitsFor(in *Input, status, previous *v1.ContainerStatus) *observed.Waiting {
	if in.Waiting != nil {
		if why, ok := in.Waiting[status.Name]; ok {
			return &why
		}
		return nil
	}
	if previous == nil || previous.State.Waiting == nil || previous.ContainerID != status.ContainerID {
		return nil
	}
	return &observed.Waiting{Reason: previous.State.Waiting.Reason, Message: previous.State.Waiting.Message}
}

// concludeContainer is for a stopped pod that starts no containers any more: each container that started has ended,
// observed or not.
func concludeContainer(in *Input, status *v1.ContainerStatus) {
	switch {
	case status.State.Terminated != nil:
	case status.State.Running != nil || (status.ContainerID != "" && in.latest(status.Name).State == observed.Unknown):
		status.State = v1.ContainerState{Terminated: lost(status.ContainerID, "The container could not be located when the pod was terminated")}
	case status.LastTerminationState.Terminated != nil:
		status.State, status.LastTerminationState = status.LastTerminationState, v1.ContainerState{}
	}
}

// shouldStart reports whether the container must start or restart, given the newest of its name or nil.
func shouldStart(pod *v1.Pod, c *v1.Container, latest *observed.Container, k kind) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return false
	case latest == nil || latest.State == observed.Created:
		return true
	case latest.State == observed.Running || k == ephemeral:
		return false
	case latest.State == observed.Exited && latest.ExitCode == 0 && k == initContainer:
		return false
	}
	return latest.State == observed.Unknown || actions.Restarts(pod, c, latest)
}

// ended returns the container's end. A termination message that was read before stays: its file is removed with the
// pod's directory.
func ended(in *Input, c *observed.Container, previous *v1.ContainerStatus) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, ContainerID: containerID(in, c),
	}
	if !c.Started.IsZero() {
		t.StartedAt = stamp(c.Started)
	}
	if !c.Finished.IsZero() {
		t.FinishedAt = stamp(c.Finished)
	}
	if t.Reason == "" {
		t.Reason = completed
		if c.ExitCode != 0 {
			t.Reason = failed
		}
	}
	if previous == nil {
		return t
	}
	for _, before := range []*v1.ContainerStateTerminated{previous.State.Terminated, previous.LastTerminationState.Terminated} {
		if before != nil && before.ContainerID == t.ContainerID && before.FinishedAt.Equal(&t.FinishedAt) {
			t.Message = cmp.Or(before.Message, t.Message)
		}
	}
	return t
}
