package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/actions"
)

// restartingAllContainers is the reason of containers that are removed so that all begin anew, as in the kubelet.
const restartingAllContainers = "RestartingAllContainers"

// mayRestartAll tells whether a container of the pod has a rule by which its end makes all containers begin anew.
func mayRestartAll(pod *v1.Pod) bool {
	has := func(c v1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(pod.Spec.InitContainers, has) || slices.ContainsFunc(pod.Spec.Containers, has)
}

// restartsAll tells whether all containers are beginning anew: one has ended so that they have to, or that was seen before.
func restartsAll(in *Input) bool {
	if !mayRestartAll(in.Pod) {
		return false
	}
	before := condition(in.Previous.Conditions, v1.AllContainersRestarting)
	return before != nil && before.Status == v1.ConditionTrue || triggersRestart(in)
}

// triggersRestart tells whether a container has ended so that all have to begin anew.
func triggersRestart(in *Input) bool {
	return actions.Compute(actions.Input{Pod: in.Pod, Has: in.Runtime, Probes: in.Probes}).RestartAll != nil
}

// restartingAllCondition says whether all containers are beginning anew: from the end that made it so until the last of the former
// containers is gone.
func restartingAllCondition(in *Input, status *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case status.Phase == v1.PodSucceeded:
		c.Reason = podCompleted
	case status.Phase == v1.PodFailed:
		c.Reason = podFailed
	case triggersRestart(in) || restartsAll(in) && formerLeft(in):
		c.Status, c.Reason = v1.ConditionTrue, "RestartAllContainersStarted"
		c.Message = "a container ended with an exit code for which its rules restart all containers"
	}
	return c
}

// formerLeft tells whether a container of the status before is still there.
func formerLeft(in *Input) bool {
	left := func(s v1.ContainerStatus) bool {
		latest := in.Runtime.Latest(s.Name)
		return latest != nil && containerID(in, latest) == s.ContainerID
	}
	return slices.ContainsFunc(in.Previous.InitContainerStatuses, left) || slices.ContainsFunc(in.Previous.ContainerStatuses, left)
}
