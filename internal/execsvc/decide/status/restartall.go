package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
)

// restartingAllContainers is the kubelet's reason of containers that are removed so that all restart.
const restartingAllContainers = "RestartingAllContainers"

// mayRestartAll reports whether a container of the pod has a rule by which its end restarts all containers.
func mayRestartAll(pod *v1.Pod) bool {
	has := func(c v1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(pod.Spec.InitContainers, has) || slices.ContainsFunc(pod.Spec.Containers, has)
}

// triggersRestart reports whether a container has ended in a way that restarts all.
func triggersRestart(in *Input) bool {
	return actions.Compute(actions.Input{Pod: in.Pod, Has: in.Runtime, Probes: in.Probes, Requested: in.Requested}).RestartAll != nil
}

// restartingAllCondition reports whether all containers are restarting: from the end that triggered it until the last
// of the old containers is removed.
func restartingAllCondition(in *Input, status *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case status.Phase == v1.PodSucceeded:
		c.Reason = podCompleted
	case status.Phase == v1.PodFailed:
		c.Reason = podFailed
	case in.triggered || in.restarting && formerLeft(in):
		c.Status, c.Reason = v1.ConditionTrue, "RestartAllContainersStarted"
		c.Message = "container exited with restart policy rule"
	}
	return c
}

// formerLeft reports whether a container of the previous status still exists.
func formerLeft(in *Input) bool {
	left := func(s v1.ContainerStatus) bool {
		latest := in.latest(s.Name)
		return latest != nil && containerID(in, latest) == s.ContainerID
	}
	return slices.ContainsFunc(in.Previous.InitContainerStatuses, left) || slices.ContainsFunc(in.Previous.ContainerStatuses, left)
}
