package robustness

import (
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Minimal (G5) checks that no op changes nothing, and that equal input produces no ops.
func Minimal(r *Run) error {
	for _, o := range r.outcomes {
		switch {
		case o.did == silent && o.after > o.before:
			return r.broken(o.step, "it changes nothing, but produced revision %d; want silence", o.after)
		case o.after > o.before+1:
			return r.broken(o.step, "it makes more than one revision after %d", o.before)
		}
	}
	for _, p := range r.passages {
		if err := minimal(p); err != nil {
			return err
		}
	}
	return nil
}

func minimal(p *passage) error {
	if p.unit.cursor == nil || p.unit.mixed() {
		return nil
	}
	if p.view.snapshots() {
		return minimalSnapshot(p)
	}
	empty := map[string]bool{}
	for _, c := range p.changes {
		if c.pod == nil {
			if c.op != podconfigv1.PodOperation_POD_OPERATION_SET {
				if empty[c.update.GetSource()] {
					return p.broken("the empty ADD of %s comes twice", c.update.GetSource())
				}
				empty[c.update.GetSource()] = true
			}
			if what := needless(p, c); what != "" {
				return p.broken("the empty %s of %s: %s", opName(c.op), c.update.GetSource(), what)
			}
			continue
		}
		if what := idle(p, c); what != "" {
			return p.broken("%s of %s: %s", opName(c.op), c.pod.GetRef().GetUid(), what)
		}
	}
	return nil
}

// minimalSnapshot checks that a SET has a reason. As in the kubelet, an UPDATE after a SET that contains it may
// repeat it as a SET.
func minimalSnapshot(p *passage) error {
	if p.kind != exact || p.moment == nil || p.life.moments[p.to()-1] == nil || len(p.open) > 0 {
		return nil
	}
	if p.view.differs(p.life.moments[p.to()-1].state, p.moment.state, nil) == "" {
		return p.broken("revision %d has nothing that a consumer in this mode receives; want silence", p.to())
	}
	return nil
}

// needless returns why an op without pods is wrong in its place, or "".
func needless(p *passage, c change) string {
	switch c.op {
	case podconfigv1.PodOperation_POD_OPERATION_SET:
		return ""
	case podconfigv1.PodOperation_POD_OPERATION_ADD:
	default:
		return "has no pods"
	}
	if p.moment == nil {
		return ""
	}
	if p.placed && p.life.stayedReady(c.update.GetSource(), p.from, p.to()) {
		return "the source was ready before"
	}
	if !p.moment.state.Ready(c.update.GetSource()) {
		return "the source hasn't become ready"
	}
	return ""
}

// idle returns why an op on a pod changes nothing for its consumer, or "" if it changes something.
func idle(p *passage, c change) string {
	// A coalesced catch-up contains pods that changed and changed back, and, with a filter, all that may have
	// changed.
	lenient := p.kind == coalesced
	h := c.before
	// The daemon has the pods from an earlier stream only as known_pods.
	lenient = lenient || c.missing || h != nil && h.undecided && len(p.stream.Request.GetKnownPods()) == 0
	switch c.op {
	case podconfigv1.PodOperation_POD_OPERATION_REMOVE:
		if h == nil && !c.open && !p.mends && !(p.kind.catchUp() && p.view.filtered()) && !p.said(c.pod) {
			return "the consumer doesn't hold it"
		}
	case podconfigv1.PodOperation_POD_OPERATION_ADD, podconfigv1.PodOperation_POD_OPERATION_RESTORE:
		if h != nil && !lenient && h.source == c.pod.GetSource() && h.name == c.pod.GetRef().GetName() &&
			h.namespace == c.pod.GetRef().GetNamespace() && h.spec == c.pod.GetSpecDigest() && h.status == c.pod.GetStatusDigest() {
			return "the consumer holds just that"
		}
	case podconfigv1.PodOperation_POD_OPERATION_UPDATE, podconfigv1.PodOperation_POD_OPERATION_DELETE:
		if h != nil && h.spec == c.pod.GetSpecDigest() && !lenient {
			return "its spec is as before"
		}
	case podconfigv1.PodOperation_POD_OPERATION_RECONCILE:
		if h != nil && h.spec == c.pod.GetSpecDigest() && h.status == c.pod.GetStatusDigest() && !lenient {
			return "its status is as before"
		}
	}
	return ""
}

// said reports whether the consumer sent the pod as a known pod, although its source isn't in the consumer's
// view. The consumer may have removed it since, but the daemon uses the request.
func (p *passage) said(pod *podconfigv1.Pod) bool {
	return !p.view.sees(pod.GetSource()) && slices.ContainsFunc(p.stream.Request.GetKnownPods(), func(k *podconfigv1.KnownPod) bool {
		return k.GetUid() == pod.GetRef().GetUid() && k.GetSource() == pod.GetSource()
	})
}
