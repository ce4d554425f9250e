package gates

import "k8s.io/component-base/featuregate"

// State is a gate with its stage and its value.
type State struct {
	// Name is the gate's. Stage is ALPHA, BETA, DEPRECATED, or empty for a gate of a stable feature.
	Name, Stage string
	Enabled     bool
}

// States returns the kubelet's gates that podexecd knows, by name. A gate whose feature podexecd always or never has is
// shown as the feature is.
func (g *Gates) States() []State {
	out := make([]State, 0, len(table))
	for _, each := range table {
		s := State{Name: string(each.name), Enabled: g.has(each)}
		if each.spec.PreRelease != featuregate.GA {
			s.Stage = string(each.spec.PreRelease)
		}
		out = append(out, s)
	}
	return out
}
