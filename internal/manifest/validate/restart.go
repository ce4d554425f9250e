package validate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxRestartRules is how many restartPolicyRules a container may have.
	maxRestartRules = 20
	// maxExitCodes is how many exit codes a rule may name.
	maxExitCodes = 255
)

func validateRestart(c *v1.Container, path *field.Path) field.ErrorList {
	at := path.Child("restartPolicy")
	if c.RestartPolicy == nil {
		if len(c.RestartPolicyRules) > 0 {
			return field.ErrorList{field.Required(at, "restartPolicyRules need it")}
		}
		return nil
	}
	errs := oneOf(at, *c.RestartPolicy,
		v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)
	at = path.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > maxRestartRules {
		errs = append(errs, field.TooMany(at, len(c.RestartPolicyRules), maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		at := at.Index(i)
		errs = append(errs, oneOf(at.Child("action"), rule.Action,
			v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)...)
		codes := at.Child("exitCodes")
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(codes, ""))
			continue
		}
		errs = append(errs, oneOf(codes.Child("operator"), rule.ExitCodes.Operator,
			v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(codes.Child("values"), n, maxExitCodes))
		}
	}
	return errs
}

// validateResizePolicy checks the resizePolicy of a container. once is set for an init container that ends by itself,
// which a resize doesn't restart.
func validateResizePolicy(policies []v1.ContainerResizePolicy, restart v1.RestartPolicy, once bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[v1.ResourceName]bool{}
	for i, p := range policies {
		at := path.Index(i)
		if seen[p.ResourceName] {
			errs = append(errs, field.Duplicate(at.Child("resourceName"), p.ResourceName))
		}
		seen[p.ResourceName] = true
		errs = append(errs, oneOf(at.Child("resourceName"), p.ResourceName, v1.ResourceCPU, v1.ResourceMemory)...)
		errs = append(errs, oneOf(at.Child("restartPolicy"), p.RestartPolicy, v1.NotRequired, v1.RestartContainer)...)
		if p.RestartPolicy == v1.NotRequired {
			continue
		}
		if restart == v1.RestartPolicyNever {
			errs = append(errs, field.Invalid(at.Child("restartPolicy"), p.RestartPolicy, "must be NotRequired in a pod with restartPolicy Never"))
		} else if once {
			errs = append(errs, field.Invalid(at.Child("restartPolicy"), p.RestartPolicy,
				"must be NotRequired for an init container without restartPolicy Always"))
		}
	}
	return errs
}
