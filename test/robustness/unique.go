package robustness

import (
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Unique (G3) checks that nothing that a stored cursor covers is delivered again.
func Unique(r *Run) error {
	for _, p := range r.passages {
		if p.unit.cursor == nil || !p.placed || p.kind == mark {
			continue
		}
		if p.kind == exact && p.to() <= p.from {
			return p.broken("revision %d is delivered, which the cursor %d covers", p.to(), p.from)
		}
		if p.moment == nil || p.view.snapshots() || hasSet(p) {
			continue
		}
		for _, c := range p.changes {
			if p.covered(c) {
				return p.broken("%s of %s delivers a version that the cursor %d covers",
					opName(c.op), c.pod.GetRef().GetUid(), p.from)
			}
		}
	}
	return nil
}

// covered reports whether the op delivers a version that isn't later than the consumer's cursor.
func (p *passage) covered(c change) bool {
	if c.pod == nil || c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE || c.open {
		return false
	}
	uid := c.pod.GetRef().GetUid()
	want := p.moment.state.Pods[uid]
	if want == nil || want.Changed > p.from {
		return false
	}
	// If the cursor is older than the tombstones, the known pods count instead.
	known := p.stream.Request.GetKnownPods()
	if p.opening && p.kind == coalesced && len(known) > 0 {
		return slices.ContainsFunc(known, func(k *podconfigv1.KnownPod) bool {
			return k.GetUid() == uid && k.GetSpecDigest() == want.SpecDigest && k.GetStatusDigest() == want.StatusDigest
		})
	}
	return true
}

// hasSet reports whether the unit has a SET, which by definition has all pods.
func hasSet(p *passage) bool {
	return slices.ContainsFunc(p.unit.updates(), func(u *podconfigv1.PodUpdate) bool {
		return u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_SET
	})
}
