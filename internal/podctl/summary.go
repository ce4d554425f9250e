package podctl

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// summary is a pod's status in a few words, as `kubectl get pods` shows it.
type summary struct {
	status      string
	ready       int // containers, sidecars included
	total       int
	restarts    int
	lastRestart time.Time // zero if it isn't known
}

// summarize condenses a status. The status word is, in this order: why initialization isn't over; why the first container
// that has anything to say isn't running; the pod's own reason; its phase. Without spec (nil) it goes by the status alone.
func summarize(spec *corev1.PodSpec, status *corev1.PodStatus) summary {
	s := summary{status: baseStatus(status)}
	sidecar := sidecarTest(spec)

	initializing := false
	var initial summary // its restarts count until initialization is over: those of all init containers
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

// baseStatus is what can be said without looking at containers.
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
	// One container that has done its work doesn't mean that the pod has.
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

// containerReason is why a container doesn't run; empty if it does or doesn't say.
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

// initProgress tells whether an init container lets the next one start and, if not, why; empty if it is just at work.
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

// sidecarTest returns what tells the init containers that stay from those that end. Without the spec it goes by their having
// been started, which is only ever said of the former.
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

// specTotal is the number of containers that a pod has while it runs.
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
