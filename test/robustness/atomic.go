package robustness

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Atomic (G4) checks that a revision arrives whole, and that a cursor never points inside one.
func Atomic(r *Run) error {
	var before *passage
	for _, p := range r.passages {
		if p.unit.torn {
			return p.broken("a heartbeat comes in the middle of a revision")
		}
		for i, m := range p.unit.messages {
			if err := whole(p, i, m.Message); err != nil {
				return err
			}
		}
		if split(before, p) {
			return p.broken("the cursor %d was received before, in the middle of its revision:\n%s", p.to(), before.unit.String())
		}
		if p.kind == exact && len(p.faults) > 0 && p.partial() {
			return p.broken("the cursor %d came with only a part of its revision: %v", p.to(), p.faults[0])
		}
		before = p
	}
	return nil
}

// whole checks that a message either has a cursor, or states that more of its unit follows.
func whole(p *passage, i int, m *podconfigv1.WatchPodUpdatesResponse) error {
	switch continued := m.GetContinued(); {
	case continued && m.GetCursor() != nil:
		return p.broken("message %d has a cursor, though more of its revision follows", i+1)
	case m.GetHeartbeat() != nil:
		return nil
	case !continued && m.GetCursor() == nil:
		return p.broken("message %d is the last of its revision and has no cursor", i+1)
	default:
		return nil
	}
}

// split reports whether two consecutive units of a stream are parts of one revision.
func split(a, b *passage) bool {
	return a != nil && a.stream == b.stream && a.kind != mark && b.kind != mark &&
		a.unit.cursor != nil && b.unit.cursor != nil && a.to() == b.to()
}

// partial reports whether all ops of the unit are correct, so that any fault is a missing op.
func (p *passage) partial() bool {
	if len(p.changes) == 0 || p.moment == nil {
		return false
	}
	for _, c := range p.changes {
		if c.pod == nil {
			continue
		}
		want := p.view.pod(p.moment.state, c.pod.GetRef().GetUid())
		gone := c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE
		if gone != (want == nil) || want != nil && want.SpecDigest != c.pod.GetSpecDigest() {
			return false
		}
	}
	return true
}
