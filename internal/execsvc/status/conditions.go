package status

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The reasons of conditions, as users know them from the kubelet.
const (
	unknownContainerStatuses = "UnknownContainerStatuses"
	podCompleted             = "PodCompleted"
	podFailed                = "PodFailed"
	containersNotReady       = "ContainersNotReady"
	containersNotInitialized = "ContainersNotInitialized"
	readinessGatesNotReady   = "ReadinessGatesNotReady"
)

// nodeConditions are the conditions that are the node agent's to set. Others are passed on.
var nodeConditions = map[v1.PodConditionType]bool{
	v1.PodReadyToStartContainers: true,
	v1.PodInitialized:            true,
	v1.PodReady:                  true,
	v1.ContainersReady:           true,
	v1.PodScheduled:              true,
}

// setConditions sets the conditions; the rest of the status has to be complete.
func setConditions(in *Input, status *v1.PodStatus) {
	for _, c := range in.Pod.Status.Conditions {
		if !nodeConditions[c.Type] {
			status.Conditions = append(status.Conditions, *c.DeepCopy())
		}
	}
	containersReady := containersReadyCondition(in, status)
	for _, c := range []v1.PodCondition{
		{Type: v1.PodReadyToStartContainers, Status: boolStatus(readyToStart(in))},
		initializedCondition(in, status),
		readyCondition(in, status, containersReady),
		containersReady,
		{Type: v1.PodScheduled, Status: v1.ConditionTrue},
	} {
		c.ObservedGeneration = in.Pod.Generation
		c.LastTransitionTime = stamp(in.Now)
		if before := condition(in.Previous.Conditions, c.Type); before != nil && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
		status.Conditions = append(status.Conditions, c)
	}
}

// readyToStart tells whether the pod has a sandbox with a network, so that containers can start in it.
func readyToStart(in *Input) bool {
	sandbox := in.Runtime.ReadySandbox()
	return sandbox != nil && (sandbox.HostNetwork || len(sandbox.IPs) > 0)
}

func initializedCondition(in *Input, status *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if len(in.Pod.Spec.InitContainers) > 0 && status.InitContainerStatuses == nil {
		c.Status, c.Reason = v1.ConditionFalse, unknownContainerStatuses
		return c
	}
	switch incomplete := unready(in.Pod.Spec.InitContainers, status.InitContainerStatuses); {
	case status.Phase == v1.PodSucceeded:
		c.Reason = podCompleted
	case begun(in) || len(incomplete) == 0:
	default:
		c.Status, c.Reason = v1.ConditionFalse, containersNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func containersReadyCondition(in *Input, status *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	switch names := unready(in.Pod.Spec.Containers, status.ContainerStatuses); {
	case status.Phase == v1.PodSucceeded:
		c.Reason = podCompleted
	case status.Phase == v1.PodFailed:
		// Its containers may still be on their way out.
		c.Reason = podFailed
	case len(names) > 0:
		c.Reason, c.Message = containersNotReady, fmt.Sprintf("containers with unready status: %s", names)
	default:
		c.Status = v1.ConditionTrue
	}
	return c
}

// readyCondition is the pod's readiness: that of its containers and of its readiness gates, which others set in its status.
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

// unready are the names of the containers that aren't ready, in the order of the pod.
func unready(containers []v1.Container, statuses []v1.ContainerStatus) []string {
	var names []string
	for i := range containers {
		if s := find(statuses, containers[i].Name); s == nil || !s.Ready {
			names = append(names, containers[i].Name)
		}
	}
	return names
}

// condition is the condition of that type, or nil.
func condition(conditions []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == t {
			return &conditions[i]
		}
	}
	return nil
}

func boolStatus(b bool) v1.ConditionStatus {
	if b {
		return v1.ConditionTrue
	}
	return v1.ConditionFalse
}
