package validate

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSpread checks the topology spread constraints.
func validateSpread(constraints []v1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	type kind struct {
		key    string
		action v1.UnsatisfiableConstraintAction
	}
	var errs field.ErrorList
	seen := map[kind]bool{}
	for i := range constraints {
		c, at := &constraints[i], path.Index(i)
		errs = append(errs, inRange(at.Child("maxSkew"), &c.MaxSkew, 1, math.MaxInt32)...)
		errs = append(errs, required(at.Child("topologyKey"), c.TopologyKey)...)
		errs = append(errs, oneOf(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, v1.DoNotSchedule, v1.ScheduleAnyway)...)
		if k := (kind{c.TopologyKey, c.WhenUnsatisfiable}); seen[k] {
			errs = append(errs, field.Duplicate(at, c.TopologyKey))
		} else {
			seen[k] = true
		}
		errs = append(errs, inRange(at.Child("minDomains"), c.MinDomains, 1, math.MaxInt32)...)
		if c.MinDomains != nil && c.WhenUnsatisfiable != v1.DoNotSchedule {
			errs = append(errs, field.Invalid(at.Child("minDomains"), *c.MinDomains, "needs whenUnsatisfiable DoNotSchedule"))
		}
		for _, p := range []struct {
			field  string
			policy *v1.NodeInclusionPolicy
		}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
			if p.policy != nil {
				errs = append(errs, oneOf(at.Child(p.field), *p.policy, v1.NodeInclusionPolicyIgnore, v1.NodeInclusionPolicyHonor)...)
			}
		}
		errs = append(errs, validateLabelKeys(c.MatchLabelKeys, nil, c.LabelSelector, at)...)
		errs = append(errs, validateSelector(c.LabelSelector, at.Child("labelSelector"))...)
	}
	return errs
}
