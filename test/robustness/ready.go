package robustness

import (
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Ready (G9) checks that each source's readiness is reported with its revision, and that a source that isn't
// ready removes nothing. After the sources changed, the new list comes before anything else.
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

// lists reports whether the unit lists all sources, after its ops.
func (p *passage) lists() bool {
	return p.unit.synced() || p.unit.messages[len(p.unit.messages)-1].Message.GetHeartbeat() != nil
}

// listed checks that no op comes while the consumer's last list of sources is out of date, or doesn't show that
// a source was removed and added again. reported is the state at the last list; nil means that there was no list
// yet.
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
		return p.broken("after revision %d the sources are %v; the last list that the consumer received is %v", before.number, now, names)
	}
	for _, name := range names {
		if reported.Ready(name) && !before.state.Ready(name) {
			return p.broken("after revision %d source %s isn't ready; the last list that the consumer received says that it is", before.number, name)
		}
	}
	return nil
}

// list checks the list of sources in a message: every source that the view can see, in order of priority, each
// with its readiness.
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

// reported checks the readiness of the sources in the ops, and that the consumer is notified when a source becomes
// ready.
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
			return p.broken("source %s became ready at revision %d, and no op reports it", s.Name, p.to())
		}
	}
	return nil
}

// ready returns the readiness that an op should have. The REMOVEs of a removed source have the readiness from
// before; a catch-up may not know it.
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

// unready returns which part of an op the readiness of its source forbids, or "".
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
			return "source " + source + " isn't ready, and the daemon hasn't had the pod since its start"
		}
	case want == nil || want.Source != source:
	case c.pod.GetStale() && !want.Stale:
		return "is marked stale, and its source has delivered a set"
	case !c.pod.GetStale() && want.Stale && !((p.view.snapshots() || c.open) && p.life.delivered[source]):
		// A SET, and other units that show all pods as of an earlier revision, may already contain a later
		// fact: that the source has delivered a set.
		return "isn't marked stale, and its source hasn't delivered a set"
	case restore && !c.pod.GetStale() && !(r.silences && p.kind != exact):
		return "isn't stale; want ADD"
	// A pod that may have been in the view all the time may come as RESTORE or UPDATE.
	case c.op == podconfigv1.PodOperation_POD_OPERATION_ADD && c.pod.GetStale() && !p.view.snapshots() &&
		!(p.kind == coalesced && p.view.varies()):
		return "is stale; want RESTORE"
	}
	return ""
}

// removed reports whether the consumer's pod existed when the consumer was at its cursor, or just before. Then
// it was certainly removed since.
func (r *Run) removed(p *passage, h *held) bool {
	there := func(s *State) bool { return s != nil && s.Pods[h.uid] != nil && s.Pods[h.uid].Source == h.source }
	before := p.life.moments[p.to()-1]
	return p.placed && there(r.stateAt(p.life, p.from)) || before != nil && there(before.state)
}

// replaced reports whether another pod of the source has the name of the consumer's pod. The name may be
// unknown.
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
