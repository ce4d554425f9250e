package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// Restarts reports whether an init or main container starts again after last, the newest of its name. If last is nil or
// never ran, this is its first start. A running container is treated as one that is stopped before its end. A container
// whose end restarts all containers restarts too.
func Restarts(pod *v1.Pod, c *v1.Container, last *observed.Container) bool {
	policy := policyOf(pod, c)
	switch {
	case last == nil, last.State == observed.Created, last.State == observed.Unknown, last.Replaced:
		return true
	case last.State == observed.Running:
		return policy != v1.RestartPolicyNever
	case ruleFor(c, last.ExitCode) != "":
		return true
	case policy == v1.RestartPolicyNever:
		return false
	case policy == v1.RestartPolicyOnFailure:
		return last.ExitCode != 0
	default:
		return true
	}
}

// MayEnd reports whether the pod's policy lets an init or main container of that name end, so that its exit code counts.
func MayEnd(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(resettable(pod), func(c *v1.Container) bool {
		return c.Name == name && policyOf(pod, c) != v1.RestartPolicyAlways
	})
}

// policyOf returns the container's restart policy: its own, or else the pod's.
func policyOf(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// ruleFor returns the action of the container's first restart rule that matches the exit code. Empty: the restart
// policy decides.
func ruleFor(c *v1.Container, code int32) v1.ContainerRestartRuleAction {
	if c.RestartPolicy == nil {
		return ""
	}
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, code)
		switch rule.ExitCodes.Operator {
		case v1.ContainerRestartRuleOnExitCodesOpIn:
		case v1.ContainerRestartRuleOnExitCodesOpNotIn:
			listed = !listed
		default:
			continue
		}
		if !listed {
			continue
		}
		switch rule.Action {
		case v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers:
			return rule.Action
		default:
			return ""
		}
	}
	return ""
}
