package podsummary

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// summary is a pod's status in a few words, as in `kubectl get pods`.
type summary struct {
	status      string
	ready       int // containers, sidecars included
	total       int
	restarts    int
	lastRestart time.Time // zero if it isn't known
}

// summarize returns the summary of a status. The status word is the first of: the reason for which initialization
// isn't complete; the reason of the first container that isn't running; the pod's own reason; its phase. Without spec
// (nil) it uses only the status.
func summarize(spec *corev1.PodSpec, status *corev1.PodStatus) summary {
	s := summary{status: baseStatus(status)}
	sidecar := sidecarTest(spec)

	initializing := false
	var initial summary // the restarts of all init containers, which count until initialization is complete
	for i := range status.InitContainerStatuses {
		c := &status.InitContainerStatuses[i]
		initial.countRestarts(c)
		if sidecar(c) {
			s.countRestarts(c)
		}
		reason, done := initProgress(c, sidecar(c))
		if done && sidecar(c) && started(c) && c.Ready {
			s.ready++
		}
		if !done {
			initializing = true
			if reason == "" {
				reason = fmt.Sprintf("Init:%d/%d", i, initTotal(spec, status))
			}
			s.status = reason
			break
		}
	}
	s.total = containerTotal(spec, status, sidecar)
	if initializing && !conditionTrue(status, corev1.PodInitialized) {
		s.restarts, s.lastRestart = initial.restarts, initial.lastRestart
		return s
	}
	s.addContainers(status)
	return s
}

// baseStatus returns the status word without the containers.
func baseStatus(status *corev1.PodStatus) string {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			return corev1.PodReasonSchedulingGated
		}
	}
	switch {
	case status.Reason != "":
		return status.Reason
	case status.Phase != "":
		return string(status.Phase)
	}
	return string(corev1.PodUnknown)
}

// addContainers adds the ordinary containers.
func (s *summary) addContainers(status *corev1.PodStatus) {
	running, reason := false, ""
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		s.countRestarts(c)
		if c.Ready && c.State.Running != nil {
			running = true
			s.ready++
		}
		if reason == "" {
			reason = containerReason(c)
		}
	}
	if reason != "" {
		s.status = reason
	}
	// A container that has completed doesn't mean that the pod has.
	if s.status == "Completed" && running {
		s.status = "NotReady"
		if conditionTrue(status, corev1.PodReady) {
			s.status = string(corev1.PodRunning)
		}
	}
}

func (s *summary) countRestarts(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if last := c.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(s.lastRestart) {
		s.lastRestart = last.FinishedAt.Time
	}
}

// containerReason returns why a container doesn't run; empty if it runs or has no reason.
func containerReason(c *corev1.ContainerStatus) string {
	switch {
	case c.State.Waiting != nil:
		return c.State.Waiting.Reason
	case c.State.Terminated != nil:
		return terminationReason(c.State.Terminated)
	}
	return ""
}

func terminationReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// initProgress reports whether the next init container may start and, if not, why; the reason is empty while the
// container runs.
func initProgress(c *corev1.ContainerStatus, sidecar bool) (reason string, done bool) {
	switch {
	case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0, sidecar && started(c):
		return "", true
	case c.State.Terminated != nil:
		return "Init:" + terminationReason(c.State.Terminated), false
	case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
		return "Init:" + c.State.Waiting.Reason, false
	}
	return "", false
}

// sidecarTest returns a test for sidecars among the init containers. Without the spec, it tests the field started,
// which only sidecars have.
func sidecarTest(spec *corev1.PodSpec) func(*corev1.ContainerStatus) bool {
	if spec == nil {
		return started
	}
	sidecars := map[string]bool{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		sidecars[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	return func(c *corev1.ContainerStatus) bool { return sidecars[c.Name] }
}

func containerTotal(spec *corev1.PodSpec, status *corev1.PodStatus, sidecar func(*corev1.ContainerStatus) bool) int {
	if spec != nil {
		return specTotal(spec)
	}
	total := len(status.ContainerStatuses)
	for i := range status.InitContainerStatuses {
		if sidecar(&status.InitContainerStatuses[i]) {
			total++
		}
	}
	return total
}

// specTotal returns the number of containers while the pod runs.
func specTotal(spec *corev1.PodSpec) int {
	total := len(spec.Containers)
	for i := range spec.InitContainers {
		if p := spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			total++
		}
	}
	return total
}

func initTotal(spec *corev1.PodSpec, status *corev1.PodStatus) int {
	if spec != nil {
		return len(spec.InitContainers)
	}
	return len(status.InitContainerStatuses)
}

func started(c *corev1.ContainerStatus) bool { return c.Started != nil && *c.Started }

func conditionTrue(status *corev1.PodStatus, kind corev1.PodConditionType) bool {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
