package status

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// The reasons of conditions, as in the kubelet.
const (
	unknownContainerStatuses = "UnknownContainerStatuses"
	podCompleted             = "PodCompleted"
	podFailed                = "PodFailed"
	containersNotReady       = "ContainersNotReady"
	containersNotInitialized = "ContainersNotInitialized"
	readinessGatesNotReady   = "ReadinessGatesNotReady"
	podSandboxNotReady       = "PodSandboxNotReady"
)

// Owns reports whether the node agent sets and removes conditions of that type. Others are passed on.
func Owns(t v1.PodConditionType) bool { return nodeConditions[t] }

var nodeConditions = map[v1.PodConditionType]bool{
	v1.PodReadyToStartContainers: true,
	v1.PodInitialized:            true,
	v1.PodReady:                  true,
	v1.ContainersReady:           true,
	v1.PodScheduled:              true,
	v1.AllContainersRestarting:   true,
	v1.PodResizePending:          true,
	v1.PodResizeInProgress:       true,
}

// setConditions sets the conditions; the rest of the status must be complete.
func setConditions(in *Input, status *v1.PodStatus) {
	for _, c := range in.Pod.Status.Conditions {
		if !nodeConditions[c.Type] {
			status.Conditions = append(status.Conditions, *c.DeepCopy())
		}
	}
	setDisruption(in, status)
	setResize(in, status)
	containersReady := containersReadyCondition(in, status)
	own := []v1.PodCondition{
		readyToStartCondition(in),
		initializedCondition(in, status),
		readyCondition(in, status, containersReady),
		containersReady,
		{Type: v1.PodScheduled, Status: v1.ConditionTrue},
	}
	if mayRestartAll(in.Pod) {
		own = append(own, restartingAllCondition(in, status))
	}
	for _, c := range own {
		status.Conditions = append(status.Conditions, dated(in, c))
	}
}

// dated returns the condition with the time of its last transition.
func dated(in *Input, c v1.PodCondition) v1.PodCondition {
	c.ObservedGeneration = in.Pod.Generation
	c.LastTransitionTime = stamp(in.Now)
	if before := condition(in.Previous.Conditions, c.Type); before != nil && before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return c
}

// setDisruption sets the condition that the node ended the pod. Once set it stays; a DisruptionTarget of another
// component is that component's to remove.
func setDisruption(in *Input, status *v1.PodStatus) {
	disruption := condition(in.Previous.Conditions, v1.DisruptionTarget).DeepCopy()
	if disruption != nil && disruption.Reason != v1.PodReasonTerminationByKubelet {
		disruption = nil
	}
	if in.Failure != nil && in.Failure.Disrupted && podmeta.IsTerminal(status.Phase) && in.Previous.Phase != v1.PodSucceeded {
		c := dated(in, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: disruptionMessage(in.Failure),
		})
		disruption = &c
	}
	if disruption == nil {
		return
	}
	if c := condition(status.Conditions, v1.DisruptionTarget); c != nil {
		*c = *disruption
		return
	}
	status.Conditions = append(status.Conditions, *disruption)
}

// disruptionMessage returns the condition's message: that of the status, except for a preempted pod, as with the kubelet.
func disruptionMessage(f *Failure) string {
	if f.Reason == events.Preempting {
		return "Pod was preempted by Kubelet to accommodate a critical pod."
	}
	return f.Message
}

// EndedByNode reports whether a pod has ended because the node evicted or preempted it, or was shut down.
func EndedByNode(status *v1.PodStatus) bool {
	_, ended := EndMessage(status)
	return ended
}

// EndMessage returns why the node has ended a pod, as its condition says. ended is EndedByNode.
func EndMessage(status *v1.PodStatus) (message string, ended bool) {
	c := condition(status.Conditions, v1.DisruptionTarget)
	if !podmeta.IsTerminal(status.Phase) || c == nil || c.Reason != v1.PodReasonTerminationByKubelet {
		return "", false
	}
	return c.Message, true
}

// readyToStartCondition reports whether the pod has a sandbox with a network, so that containers can start. The order of
// the reasons is that in which package actions looks for them.
func readyToStartCondition(in *Input) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse, Reason: podSandboxNotReady}
	ready := 0
	for _, s := range in.Runtime.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	latest := in.Runtime.ReadySandbox()
	switch {
	case len(in.Runtime.Sandboxes) == 0:
		c.Message = "no pod sandbox exists"
	case ready > 1:
		c.Message = "multiple pod sandboxes are ready and need to be reconciled"
	case latest == nil:
		c.Message = "pod sandbox is not ready"
	case latest.HostNetwork != in.Pod.Spec.HostNetwork:
		c.Message = "network namespace mode changed and sandbox needs to be recreated"
	case !latest.HostNetwork && len(latest.IPs) == 0:
		c.Message = "pod sandbox has no IP address"
	default:
		c.Status, c.Reason = v1.ConditionTrue, ""
	}
	return c
}

func initializedCondition(in *Input, status *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if len(in.Pod.Spec.InitContainers) > 0 && status.InitContainerStatuses == nil {
		c.Status, c.Reason = v1.ConditionFalse, unknownContainerStatuses
		return c
	}
	incomplete := names(in.Pod.Spec.InitContainers, status.InitContainerStatuses, func(c *v1.Container, s *v1.ContainerStatus) bool {
		if podmeta.IsSidecar(c) {
			return !ptr.Deref(s.Started, false)
		}
		return !s.Ready
	})
	before := condition(in.Previous.Conditions, v1.PodInitialized)
	switch {
	case status.Phase == v1.PodSucceeded:
		c.Reason = podCompleted
	case begun(in) || len(incomplete) == 0:
	case before != nil && before.Status == v1.ConditionTrue:
		// As in the kubelet, a pod stays initialized though its init containers may run again.
	default:
		c.Status, c.Reason = v1.ConditionFalse, containersNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func containersReadyCondition(in *Input, status *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	notReady := func(_ *v1.Container, s *v1.ContainerStatus) bool { return !s.Ready }
	sidecars := slices.DeleteFunc(slices.Clone(in.Pod.Spec.InitContainers), func(c v1.Container) bool { return !podmeta.IsSidecar(&c) })
	unready := append(names(sidecars, status.InitContainerStatuses, notReady),
		names(in.Pod.Spec.Containers, status.ContainerStatuses, notReady)...)
	switch {
	case status.Phase == v1.PodSucceeded:
		c.Reason = podCompleted
	case status.Phase == v1.PodFailed:
		// Its containers may still be stopping.
		c.Reason = podFailed
	case len(unready) > 0:
		c.Reason, c.Message = containersNotReady, fmt.Sprintf("containers with unready status: %s", unready)
	default:
		c.Status = v1.ConditionTrue
	}
	return c
}

// readyCondition is the pod's readiness: that of its containers and of its readiness gates, which other components set
// in its status.
func readyCondition(in *Input, status *v1.PodStatus, containers v1.PodCondition) v1.PodCondition {
	c := containers
	c.Type = v1.PodReady
	if c.Status != v1.ConditionTrue {
		return c
	}
	var closed []string
	for _, gate := range in.Pod.Spec.ReadinessGates {
		switch got := condition(status.Conditions, gate.ConditionType); {
		case got == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate.ConditionType)))
		case got.Status != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate.ConditionType), got.Status))
		}
	}
	if len(closed) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, readinessGatesNotReady, strings.Join(closed, ", ")
	}
	return c
}

// names returns the containers that have no status or one for which the function is true, in the order of the pod.
func names(containers []v1.Container, statuses []v1.ContainerStatus, so func(*v1.Container, *v1.ContainerStatus) bool) []string {
	var out []string
	for i := range containers {
		if s := find(statuses, containers[i].Name); s == nil || so(&containers[i], s) {
			out = append(out, containers[i].Name)
		}
	}
	return out
}

// condition returns the condition of that type, or nil.
func condition(conditions []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == t {
			return &conditions[i]
		}
	}
	return nil
}
