package stream

import v1 "k8s.io/api/core/v1"

// whichLog returns the attempts whose log may be the requested one, the most probable first, and the ID of the
// container whose end ends the log; empty if it has ended. While a container waits to be restarted, its last attempt
// is both the current and the previous one, and its restart count may already be that of the next attempt.
func whichLog(pod string, c container, previous bool) (attempts []uint32, id string, err error) {
	if c.status == nil {
		return nil, "", badRequest("container %q in pod %q is not available", c.name, pod)
	}
	state, last := c.status.State, c.status.LastTerminationState.Terminated
	began := state.Running != nil || state.Terminated != nil
	latest := uint32(max(c.status.RestartCount, 0)) //nolint:gosec // It isn't negative.
	switch {
	case previous && last == nil:
		return nil, "", badRequest("previous terminated container %q in pod %q not found", c.name, pod)
	case previous && began:
		return []uint32{max(latest, 1) - 1}, "", nil
	case state.Running != nil:
		return []uint32{latest}, runtimeID(c.status.ContainerID), nil
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return []uint32{latest}, "", nil
	case state.Terminated != nil && (last == nil || last.ContainerID == ""):
		// It ended without having been created.
		return nil, "", badRequest("container %q in pod %q is terminated", c.name, pod)
	case last != nil && latest > 0:
		return []uint32{latest, latest - 1}, "", nil
	case last != nil:
		return []uint32{latest}, "", nil
	default:
		return nil, "", badRequest("container %q in pod %q is waiting to start%s", c.name, pod, whyItWaits(state.Waiting))
	}
}

// whyItWaits returns the kubelet's text for the reasons for which most containers wait.
func whyItWaits(w *v1.ContainerStateWaiting) string {
	switch {
	case w == nil:
		return " - no logs yet"
	case w.Reason == "ErrImagePull":
		return ": image can't be pulled"
	case w.Reason == "ImagePullBackOff":
		return ": trying and failing to pull image"
	default:
		return ": " + w.Reason
	}
}
