package robustness

import (
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Ready (G9): each source's readiness is told apart and has its revision; a source that isn't ready removes nothing.
// Which sources there are is told before anything else that comes after they changed.
func Ready(r *Run) error {
	reported := map[*Stream]*State{}
	for _, p := range r.passages {
		if p.moment == nil {
			continue
		}
		state := p.moment.state
		if err := p.listed(reported[p.stream]); err != nil {
			return err
		}
		if p.lists() {
			reported[p.stream] = state
		}
		for _, m := range p.unit.messages {
			if err := p.list(m.Message, state); err != nil {
				return err
			}
		}
		if err := p.reported(state); err != nil {
			return err
		}
		for _, c := range p.changes {
			if what := r.unready(p, c); what != "" {
				return p.broken("revision %d: %s of %s: %s", p.to(), opName(c.op), c.pod.GetRef().GetUid(), what)
			}
		}
	}
	return nil
}

// lists reports whether the unit names all sources, after its ops.
func (p *passage) lists() bool {
	return p.unit.synced() || p.unit.messages[len(p.unit.messages)-1].Message.GetHeartbeat() != nil
}

// listed checks that no op comes while the consumer has been told of other sources than there are, or of one that is
// back as if it had stayed. reported is the state at which it was; nil: it wasn't yet.
func (p *passage) listed(reported *State) error {
	before := p.life.moments[p.from]
	if p.kind == exact {
		before = p.life.moments[p.to()-1]
	}
	if reported == nil || before == nil || p.kind == mark {
		return nil
	}
	names, now := p.view.sources(reported), p.view.sources(before.state)
	if !slices.Equal(names, now) {
		return p.broken("after revision %d the sources are %v; the consumer was told %v and nothing since", before.number, now, names)
	}
	for _, name := range names {
		if reported.Ready(name) && !before.state.Ready(name) {
			return p.broken("after revision %d source %s isn't ready; the consumer was told that it is and nothing since", before.number, name)
		}
	}
	return nil
}

// list checks the readiness of all sources where a message tells it: every one that the view can see, in order of
// priority.
func (p *passage) list(m *podconfigv1.WatchPodUpdatesResponse, state *State) error {
	var listed []*podconfigv1.SourceReadiness
	switch e := m.GetEvent().(type) {
	case *podconfigv1.WatchPodUpdatesResponse_Synced:
		listed = e.Synced.GetSources()
	case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
		listed = e.Heartbeat.GetSources()
	default:
		return nil
	}
	for _, want := range state.Sources {
		if len(listed) > 0 && listed[0].GetName() == want.Name {
			if listed[0].GetReady() != want.Ready {
				return p.broken("at revision %d source %s is said to be ready=%v; want %v", p.to(), want.Name, !want.Ready, want.Ready)
			}
			listed = listed[1:]
			continue
		}
		if p.view.sees(want.Name) {
			return p.broken("at revision %d source %s is missing among the sources, or not in its place", p.to(), want.Name)
		}
	}
	if len(listed) > 0 {
		return p.broken("source %s is listed, which isn't configured, or not in its place", listed[0].GetName())
	}
	return nil
}

// reported checks what the ops say of their sources, and that each source which became ready is reported.
func (p *passage) reported(state *State) error {
	said := map[string]bool{}
	for _, u := range p.unit.updates() {
		if want := p.ready(u, state); u.GetSourceReady() != want {
			return p.broken("revision %d: %s of %s says source_ready=%v; want %v",
				p.to(), opName(u.GetOp()), u.GetSource(), u.GetSourceReady(), want)
		}
		switch u.GetOp() {
		case podconfigv1.PodOperation_POD_OPERATION_REMOVE, podconfigv1.PodOperation_POD_OPERATION_RECONCILE:
		default:
			said[u.GetSource()] = true
		}
		if len(u.GetPods()) == 0 && u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_ADD && !state.Ready(u.GetSource()) {
			return p.broken("revision %d: the empty ADD of %s, which isn't ready", p.to(), u.GetSource())
		}
	}
	before := p.life.moments[p.to()-1]
	if p.kind != exact || before == nil {
		return nil
	}
	for _, s := range state.Sources {
		if s.Ready && !before.state.Ready(s.Name) && p.view.sees(s.Name) && !said[s.Name] {
			return p.broken("source %s became ready at revision %d, and no op tells", s.Name, p.to())
		}
	}
	return nil
}

// ready is what an op should say of its source. The REMOVEs of one that goes say what was true before; a catch-up
// can't always tell.
func (p *passage) ready(u *podconfigv1.PodUpdate, state *State) bool {
	if u.GetOp() != podconfigv1.PodOperation_POD_OPERATION_REMOVE || state.configured(u.GetSource()) {
		return state.Ready(u.GetSource())
	}
	before := p.life.moments[p.to()-1]
	if p.kind != exact || before == nil {
		return u.GetSourceReady()
	}
	return before.state.Ready(u.GetSource())
}

// unready says what an op does that the readiness of its source forbids, or nothing.
func (r *Run) unready(p *passage, c change) string {
	if c.pod == nil {
		return ""
	}
	state := p.moment.state
	uid, source := c.pod.GetRef().GetUid(), c.pod.GetSource()
	restore := c.op == podconfigv1.PodOperation_POD_OPERATION_RESTORE
	switch want := state.Pods[uid]; {
	case c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE:
		h := c.before
		if h != nil && h.undecided && want == nil && !state.settled(source) && p.view.mayHold(h) &&
			!r.removed(p, h) && !p.replaced(h, state) {
			return "source " + source + " isn't ready, and this life of the daemon never had the pod"
		}
	case want == nil || want.Source != source:
	case c.pod.GetStale() && !want.Stale:
		return "is said to be stale, and its source has spoken"
	case !c.pod.GetStale() && want.Stale && !((p.view.snapshots() || c.open) && p.life.delivered[source]):
		// What looks at all pods as they were at an earlier revision, as a SET does, may know already what came
		// later: that the source has spoken.
		return "isn't said to be stale, and its source hasn't spoken"
	case restore && !c.pod.GetStale():
		return "isn't stale; want ADD"
	// A pod that may have been in the view all the time may be restored or updated.
	case c.op == podconfigv1.PodOperation_POD_OPERATION_ADD && c.pod.GetStale() && !p.view.snapshots() &&
		!(p.kind == coalesced && p.view.varies()):
		return "is stale; want RESTORE"
	}
	return ""
}

// removed reports whether what the consumer holds was there when the consumer was at its cursor, or just before: then
// it is known that it was removed since.
func (r *Run) removed(p *passage, h *held) bool {
	there := func(s *State) bool { return s != nil && s.Pods[h.uid] != nil && s.Pods[h.uid].Source == h.source }
	before := p.life.moments[p.to()-1]
	return p.placed && there(r.stateAt(p.life, p.from)) || before != nil && there(before.state)
}

// replaced reports whether another pod of its source has the name of what the consumer holds. Which name that is may
// be unknown.
func (p *passage) replaced(h *held, state *State) bool {
	if h.name == "" {
		return true
	}
	for _, other := range state.Pods {
		if other.Source == h.source && other.Namespace == h.namespace && other.Name == h.name {
			return true
		}
	}
	return slices.ContainsFunc(p.changes, func(c change) bool {
		ref := c.pod.GetRef()
		return c.pod != nil && c.pod.GetSource() == h.source && ref.GetUid() != h.uid &&
			ref.GetNamespace() == h.namespace && ref.GetName() == h.name
	})
}
