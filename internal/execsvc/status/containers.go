package status

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// The reasons of container states, as users know them from the kubelet.
const (
	containerCreating      = "ContainerCreating"
	podInitializing        = "PodInitializing"
	completed              = "Completed"
	failed                 = "Error"
	containerStatusUnknown = "ContainerStatusUnknown"
)

// kind is which of a pod's lists a container is in. A sidecar is an init container that is restarted whenever it ends.
type kind int

const (
	initContainer kind = iota
	sidecar
	mainContainer
	ephemeral
)

// lostExitCode stands for the exit code of a container that nobody saw end: that of one that was killed.
const lostExitCode = 137

// setContainers sets the statuses of all containers: of init containers in the order of the pod, of others sorted by name.
func setContainers(in *Input, status *v1.PodStatus) {
	spec := &in.Pod.Spec
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		k := initContainer
		if actions.IsSidecar(c) {
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

// containerStatus is the status of one container. previous may be nil.
func containerStatus(in *Input, c *v1.Container, previous *v1.ContainerStatus, k kind) v1.ContainerStatus {
	status := v1.ContainerStatus{Name: c.Name, Image: c.Image}
	latest := in.Runtime.Latest(c.Name)
	switch {
	case latest != nil:
		takeOver(in, &status, latest, previous)
		status.Resources, status.AllocatedResources = actualResources(c, latest), c.Resources.Requests.DeepCopy()
	case previous != nil:
		remembered(in, &status, previous)
	default:
		status.State = waiting(defaultReason(in.Pod), "")
	}
	if in.Terminal {
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
	status.VolumeMounts = volumeMounts(c)
	setReady(in, &status, c, previous, k)
	return status
}

// takeOver takes over what the runtime has of the container.
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
		// It ran, and the runtime can't say how it goes on: "waiting" would take the pod back to Pending.
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

// restartCount never falls, though attempts begin anew where no dead container is left to count from.
func restartCount(c *observed.Container, id string, previous *v1.ContainerStatus) int32 {
	count := int32(c.Attempt) //nolint:gosec // Nobody restarts so often.
	if previous == nil {
		return count
	}
	least := previous.RestartCount
	if previous.ContainerID != "" && previous.ContainerID != id && previous.State.Waiting == nil {
		least++
	}
	return max(count, least)
}

// lastState is how the container ended before the one that status is of. Of dead containers the runtime keeps one at most, and
// none after a clean-up, so what was known before fills in.
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
	// While the container waited to be restarted, its own end stood there.
	if last.Terminated != nil && last.Terminated.ContainerID == status.ContainerID {
		return v1.ContainerState{}
	}
	return *last
}

// remembered is the status of a container that the runtime doesn't have, though it was known before.
func remembered(in *Input, status, previous *v1.ContainerStatus) {
	if previous.State.Waiting == nil && restartsAll(in) {
		// Its end, whatever it was, doesn't count: it begins anew with all others.
		end := previous.State.Terminated.DeepCopy()
		if end == nil {
			end = lost(previous.ContainerID, "The container was removed so that all containers of the pod begin anew")
		}
		end.Reason = restartingAllContainers
		status.State = waiting(restartingAllContainers, "All containers of the pod begin anew")
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
	// It ran and was taken away. That it ended must be seen, or the pod would go back to Pending.
	status.LastTerminationState.Terminated = lost(previous.ContainerID,
		"The container could not be located when the pod was deleted.  The container used to be Running")
	if in.Pod.DeletionTimestamp == nil {
		status.RestartCount++
	}
}

// waitsFor is what keeps the container from starting, or nil. What was said before stands until the input says more, so that a
// container in backoff doesn't flap between two states.
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

// concludeContainer is for a pod of which nothing runs and nothing is started any more: what began has ended, seen or not.
func concludeContainer(in *Input, status *v1.ContainerStatus) {
	switch {
	case status.State.Terminated != nil:
	case status.State.Running != nil || (status.ContainerID != "" && in.Runtime.Latest(status.Name).State == observed.Unknown):
		status.State = v1.ContainerState{Terminated: lost(status.ContainerID, "The container could not be located when the pod was terminated")}
	case status.LastTerminationState.Terminated != nil:
		status.State, status.LastTerminationState = status.LastTerminationState, v1.ContainerState{}
	}
}

// shouldStart tells whether the container, given the newest one of its name or nil, is to be started or restarted.
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

// ended is how the container ended. Its last words, once known, stand: the file that it left them in goes with the pod's directory.
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

func lost(id, message string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ExitCode: lostExitCode, Reason: containerStatusUnknown, Message: message, ContainerID: id}
}

func waiting(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// defaultReason is why a container that nothing is wrong with doesn't run yet.
func defaultReason(pod *v1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return podInitializing
	}
	return containerCreating
}

func containerID(in *Input, c *observed.Container) string { return in.RuntimeName + "://" + c.ID }

func volumeMounts(c *v1.Container) []v1.VolumeMountStatus {
	var mounts []v1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		status := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			status.RecursiveReadOnly = ptr.To(v1.RecursiveReadOnlyDisabled)
		}
		mounts = append(mounts, status)
	}
	return mounts
}

// find is the status of that name, or nil.
func find(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
