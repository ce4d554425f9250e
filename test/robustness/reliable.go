package robustness

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Reliable (G2) checks that between two cursors no change is missing in exact history, that each change comes
// as the op that describes it, and that a consumer that reads receives everything.
func Reliable(r *Run) error {
	for _, o := range r.outcomes {
		if o.did == visible && o.after <= o.before {
			return r.broken(o.step, "it changes what consumers see; want a revision after %d", o.before)
		}
	}
	for _, p := range r.passages {
		if err := complete(p); err != nil {
			return err
		}
		if err := r.full(p); err != nil {
			return err
		}
	}
	return r.drained()
}

func complete(p *passage) error {
	if !p.ended() || p.kind.catchUp() || p.unit.mixed() {
		return nil
	}
	if p.placed && p.to() > p.from {
		until := p.to()
		if p.kind == exact {
			until--
		}
		if n, what := p.life.unreported(p.view, p.from, until, p.open); what != "" {
			return p.broken("revision %d is missing, in which %s", n, what)
		}
	}
	if len(p.faults) > 0 {
		return p.broken("at revision %d %v", p.to(), p.faults[0])
	}
	if p.kind == exact && !p.view.snapshots() {
		for _, c := range p.changes {
			if what := p.misdescribed(c); what != "" {
				return p.broken("revision %d: %s of %s: %s", p.to(), opName(c.op), c.pod.GetRef().GetUid(), what)
			}
		}
	}
	return nil
}

// misdescribed returns why an op of exact history isn't the one that describes the change of the pod, or "". If
// the consumer has the pod from an earlier stream, the op may describe the change of the pod itself.
func (p *passage) misdescribed(c change) string {
	if c.pod == nil || c.before != nil && c.before.undecided {
		return ""
	}
	if p.moment != nil {
		want := p.moment.state.Pods[c.pod.GetRef().GetUid()]
		if want != nil && want.Deleting && c.op == podconfigv1.PodOperation_POD_OPERATION_UPDATE {
			return "the pod is being deleted; want DELETE"
		}
		if want != nil && !want.Deleting && c.op == podconfigv1.PodOperation_POD_OPERATION_DELETE {
			return "the pod isn't being deleted; want UPDATE"
		}
	}
	switch c.op {
	case podconfigv1.PodOperation_POD_OPERATION_ADD, podconfigv1.PodOperation_POD_OPERATION_RESTORE:
		if c.before != nil {
			return "the consumer holds it already; want UPDATE, DELETE or RECONCILE, or REMOVE before"
		}
	case podconfigv1.PodOperation_POD_OPERATION_UPDATE, podconfigv1.PodOperation_POD_OPERATION_DELETE,
		podconfigv1.PodOperation_POD_OPERATION_RECONCILE:
		if c.before == nil {
			return "the consumer doesn't hold it; want ADD"
		}
		if c.op == podconfigv1.PodOperation_POD_OPERATION_RECONCILE && c.before.spec != c.pod.GetSpecDigest() {
			return "the spec has changed; want UPDATE or DELETE"
		}
	}
	return ""
}

// drained checks that each consumer that read to the end received the last revision.
func (r *Run) drained() error {
	last := map[*Stream]*passage{}
	for _, p := range r.passages {
		if p.unit.cursor != nil {
			last[p.stream] = p
		}
	}
	for _, c := range r.History.Consumers {
		for _, s := range c.Streams {
			p := last[s]
			if !s.Drained || p == nil {
				continue
			}
			if n, what := p.life.unreported(p.view, p.to(), p.life.last, p.open); what != "" {
				return p.broken("revision %d never came, in which %s; this was the last unit", n, what)
			}
		}
	}
	return nil
}
