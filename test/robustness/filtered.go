package robustness

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Filtered (G10) checks that a consumer with a filter receives the pods that match, and nothing else.
func Filtered(r *Run) error {
	for _, p := range r.passages {
		if p.moment == nil || !p.view.filtered() {
			continue
		}
		for _, c := range p.changes {
			if what := p.outside(c); what != "" {
				return p.broken("revision %d: %s of %s: %s", p.to(), opName(c.op), c.pod.GetRef().GetUid(), what)
			}
		}
		if len(p.faults) > 0 {
			return p.broken("at revision %d %v", p.to(), p.faults[0])
		}
	}
	return nil
}

// outside returns how an op is outside the filter, or "".
func (p *passage) outside(c change) string {
	if c.pod == nil {
		if !p.view.sees(c.update.GetSource()) && c.op != podconfigv1.PodOperation_POD_OPERATION_SET {
			return "its source isn't in the filter"
		}
		return ""
	}
	if c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
		return ""
	}
	want := p.moment.state.Pods[c.pod.GetRef().GetUid()]
	if want != nil && want.SpecDigest == c.pod.GetSpecDigest() && want.Source == c.pod.GetSource() && !p.view.matches(want) {
		return "the pod doesn't match the filter"
	}
	return ""
}
