package gates

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/component-base/featuregate"
)

// Gates are the feature gates as they are set.
type Gates struct {
	// Warnings are the gates that are set without an effect, each with the reason.
	Warnings []string

	gate featuregate.FeatureGate
}

// New returns the gates with the kubelet's defaults and the values that are set, by name. AllAlpha and AllBeta set all
// gates of that stage. It returns an error for each gate that is locked to another value, as the kubelet does. A name
// that isn't in the table is a warning, since a gate of a newer or older version has no effect here.
func New(set map[string]bool) (*Gates, []error) {
	all := map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, g := range table {
		all[g.name] = g.spec
	}
	mutable := featuregate.NewFeatureGate()
	g := &Gates{gate: mutable}
	var mistakes []error
	if err := mutable.Add(all); err != nil {
		mistakes = append(mistakes, err)
	}
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value := set[name]
		if name == "AllAlpha" || name == "AllBeta" {
			known[name] = value
			continue
		}
		spec, ok := all[featuregate.Feature(name)]
		switch {
		case !ok:
			g.Warnings = append(g.Warnings, fmt.Sprintf("feature gate %s is unknown, and has no effect", name))
			continue
		case spec.LockToDefault && value != spec.Default:
			mistakes = append(mistakes, fmt.Errorf("feature gate %s is %t; it is locked to %t", name, value, spec.Default))
			continue
		}
		known[name] = value
		if text := withoutEffect(name, value); text != "" {
			g.Warnings = append(g.Warnings, text)
		}
	}
	if err := mutable.SetFromMap(known); err != nil {
		mistakes = append(mistakes, err)
	}
	return g, mistakes
}

// withoutEffect returns the warning about a gate that is set to a value that podexecd doesn't have; else an empty text.
func withoutEffect(name string, value bool) string {
	i := slices.IndexFunc(table, func(g gate) bool { return string(g.name) == name })
	switch fate := table[i].fate; {
	case fate == always && !value:
		return fmt.Sprintf("feature gate %s is false, but podexecd always has the feature", name)
	case fate == never && value:
		return fmt.Sprintf("feature gate %s is true, but podexecd doesn't have the feature", name)
	}
	return ""
}

// Has reports whether podexecd has the feature of one of the kubelet's gates. A gate whose feature it always or never has
// counts as the feature does, whatever the gate is set to. It has no feature of a gate that it doesn't know.
func (g *Gates) Has(name string) bool {
	i := slices.IndexFunc(table, func(each gate) bool { return string(each.name) == name })
	return i >= 0 && g.has(table[i])
}

func (g *Gates) has(each gate) bool {
	switch each.fate {
	case always:
		return true
	case never:
		return false
	default:
		return g.Enabled(string(each.name))
	}
}

// Enabled reports whether a gate of this package's constants is on.
func (g *Gates) Enabled(name string) bool { return g.gate.Enabled(featuregate.Feature(name)) }
