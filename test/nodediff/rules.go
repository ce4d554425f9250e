package nodediff

import (
	"regexp"
	"slices"
)

// Rule is an intended difference between the kubelet and Podstream.
type Rule struct {
	Name string
	// Reason is what the kubelet does, and why Podstream does something else.
	Reason string
	// Section and Path must match the difference, and Case too, if it is set.
	Case, Section, Path *regexp.Regexp
	// When decides on the values.
	When func(d *Difference) bool
	// ByChance: a run may have no such difference.
	ByChance bool
}

func (r *Rule) explains(d *Difference) bool {
	return (r.Case == nil || r.Case.MatchString(d.Case)) && r.Section.MatchString(d.Section) && r.Path.MatchString(d.Path) && r.When(d)
}

// Rules are all intended differences. Each has an example in TestRules.
var Rules = slices.Concat(nodeRules, umlRules, reservedRules, chanceRules, podRules, valueRules)

// Explain returns the name of the rule that explains a difference, or an empty string.
func Explain(d *Difference) string {
	for i := range Rules {
		if Rules[i].explains(d) {
			return Rules[i].Name
		}
	}
	return ""
}
