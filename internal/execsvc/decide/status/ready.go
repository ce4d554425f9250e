package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// setReady sets whether the container has started and is ready; its state must be set. An init container is ready once
// it is done, an ephemeral one never. For the others the probes decide.
func setReady(in *Input, status *v1.ContainerStatus, c *v1.Container, previous *v1.ContainerStatus, k kind) {
	if k == ephemeral {
		status.Started, status.Ready = nil, false
		return
	}
	if k == initContainer {
		status.Started = ptr.To(status.State.Running != nil)
		status.Ready = status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
		return
	}
	var before v1.ContainerStatus
	if previous != nil && previous.ContainerID == status.ContainerID {
		before = *previous
	}
	var probed observed.Probed
	if latest := in.latest(c.Name); latest != nil {
		probed = in.Probes[latest.ID]
	}
	started := status.State.Running != nil && passed(probed.Startup, c.StartupProbe, ptr.Deref(before.Started, false))
	status.Started = &started
	status.Ready = started && passed(probed.Readiness, c.ReadinessProbe, before.Ready)
}

// passed reports whether a container has passed a probe, which is nil if it has none. Until the probe has a result, the
// previous one of the same container counts: a restart of the agent doesn't reset it.
func passed(verdict observed.Verdict, probe *v1.Probe, before bool) bool {
	if verdict == observed.NoProbe {
		return probe == nil || before
	}
	return verdict == observed.Success
}
