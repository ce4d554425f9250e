package robustness

import (
	"maps"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// effect is the effect of one set, or of a change of the sources.
type effect int

const (
	// silent: there is nothing to send.
	silent effect = iota
	// hidden: something changed that no op reports. It may produce a revision or not.
	hidden
	// visible: there is a revision.
	visible
)

// offer is a pod in an origin, served or not.
type offer struct {
	origin string
	pod    *Pod
}

// model is the oracle. For each set it computes everything from the start: the pods of every origin, which pod
// gets each name and UID, and the difference from before.
type model struct {
	// sources are all sources with pods, in order of priority. Sources that are no longer configured come last.
	sources    []string
	configured []string
	// offers are the pods of the origins of each source, in order.
	offers map[string][]offer
	// good are the origins, by source, whose last good pods are known.
	good      map[string]map[string]bool
	ready     map[string]bool
	complete  map[string]bool
	delivered map[string]bool
	served    map[string]*Pod
	// read is the time at which each source was last read, with or without success. Zero means that it isn't
	// known.
	read map[string]time.Time
}

// newModel returns an oracle for a daemon that has just started, with the contents of its store; nil means no
// store.
func newModel(sources []string, stored *State) *model {
	m := &model{
		sources: slices.Clone(sources), configured: sources, offers: map[string][]offer{}, good: map[string]map[string]bool{},
		ready: map[string]bool{}, complete: map[string]bool{}, delivered: map[string]bool{}, served: map[string]*Pod{},
		read: map[string]time.Time{},
	}
	if stored == nil {
		return m
	}
	m.complete = maps.Clone(stored.Complete)
	for _, name := range slices.Sorted(maps.Keys(stored.Complete)) {
		if !slices.Contains(m.sources, name) {
			m.sources = append(m.sources, name)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(stored.Pods)) {
		p := *stored.Pods[uid]
		p.Stale = true
		m.served[uid] = &p
		m.offers[p.Source] = append(m.offers[p.Source], offer{origin: p.Origin, pod: &p})
		if m.good[p.Source] == nil {
			m.good[p.Source] = map[string]bool{}
		}
		m.good[p.Source][p.Origin] = true
		if !slices.Contains(m.sources, p.Source) {
			m.sources = append(m.sources, p.Source)
		}
	}
	return m
}

// state returns the present state.
func (m *model) state() *State {
	s := &State{Pods: maps.Clone(m.served), Complete: maps.Clone(m.complete)}
	for _, name := range m.configured {
		s.Sources = append(s.Sources, SourceState{Name: name, Ready: m.ready[name]})
	}
	return s
}

// clone returns an independent copy.
func (m *model) clone() *model {
	c := *m
	c.sources = slices.Clone(m.sources)
	c.offers, c.good, c.ready = maps.Clone(m.offers), maps.Clone(m.good), maps.Clone(m.ready)
	c.complete, c.delivered, c.served = maps.Clone(m.complete), maps.Clone(m.delivered), maps.Clone(m.served)
	c.read = maps.Clone(m.read)
	return &c
}

// apply applies a set. number is the number of the revision, if the set produces one.
func (m *model) apply(set manifest.Set, number uint64) effect {
	if !slices.Contains(m.configured, set.Source) {
		return silent
	}
	m.read[set.Source] = set.ReadTime
	if set.Err != nil {
		return silent
	}
	m.take(set)
	m.delivered[set.Source] = true
	becameReady := !m.ready[set.Source] && (m.complete[set.Source] || m.allGood(set))
	if becameReady {
		m.ready[set.Source], m.complete[set.Source] = true, true
		m.dropFormer()
	}
	did := m.serve(m.arbitrate(), func(string) time.Time { return set.ReadTime }, number)
	if becameReady {
		did = visible
	}
	return did
}

// configure replaces the sources. Everything of a removed source is deleted. A source that only the store had
// has its stored pods again.
func (m *model) configure(sources []string, number uint64) effect {
	if slices.Equal(m.configured, sources) {
		return silent
	}
	var former []string
	for _, name := range m.sources {
		if slices.Contains(sources, name) {
			continue
		}
		if !slices.Contains(m.configured, name) {
			former = append(former, name)
			continue
		}
		for _, known := range []map[string]bool{m.ready, m.complete, m.delivered} {
			delete(known, name)
		}
		delete(m.offers, name)
		delete(m.good, name)
		delete(m.read, name)
	}
	for _, name := range sources {
		if !slices.Contains(m.sources, name) {
			delete(m.complete, name)
		}
	}
	m.sources, m.configured = append(slices.Clone(sources), former...), sources
	m.dropFormer()
	m.serve(m.arbitrate(), func(source string) time.Time { return m.read[source] }, number)
	return visible
}

// take replaces the pods of the set's source. A held origin keeps the pods that it doesn't define again; a
// missing origin has none.
func (m *model) take(set manifest.Set) {
	var next []offer
	good := map[string]bool{}
	for _, o := range set.Origins {
		var given []offer
		for _, p := range o.Pods {
			given = append(given, offer{origin: o.Name, pod: podOf(set.Source, o.Name, p)})
		}
		next = append(next, given...)
		good[o.Name] = !o.Held || m.good[set.Source][o.Name]
		if !o.Held {
			continue
		}
		for _, old := range m.offers[set.Source] {
			newlyGiven := slices.ContainsFunc(given, func(g offer) bool {
				return g.pod.UID == old.pod.UID || g.pod.Namespace == old.pod.Namespace && g.pod.Name == old.pod.Name
			})
			if old.origin == o.Name && !newlyGiven {
				next = append(next, old)
			}
		}
	}
	m.offers[set.Source], m.good[set.Source] = next, good
}

func podOf(source, origin string, p *manifest.Pod) *Pod {
	_, mirror := p.Annotations[manifest.MirrorAnnotation]
	return &Pod{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Source: source, Origin: origin,
		SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest, Deleting: p.DeletionTimestamp != nil, Mirror: mirror,
		Node: p.Spec.NodeName, Labels: p.Labels,
	}
}

// allGood reports whether the good pods of all origins of the set are known.
func (m *model) allGood(set manifest.Set) bool {
	return !slices.ContainsFunc(set.Origins, func(o *manifest.Origin) bool { return !m.good[set.Source][o.Name] })
}

// dropFormer removes the sources that aren't configured, once all others are ready.
func (m *model) dropFormer() {
	for _, name := range m.configured {
		if !m.ready[name] {
			return
		}
	}
	for _, name := range m.sources[len(m.configured):] {
		delete(m.offers, name)
		delete(m.good, name)
		delete(m.complete, name)
	}
	m.sources = slices.Clone(m.configured)
}

// arbitrate gives each UID, and each full name except those of mirror pods, to the first pod that claims it.
// Pods from the store, and pods that aren't served, get the names that are left.
func (m *model) arbitrate() map[string]*Pod {
	wanted, names := map[string]*Pod{}, map[string]bool{}
	lost := func(p *Pod) bool {
		served := m.served[p.UID]
		return m.stale(p) && (served == nil || !p.continues(served))
	}
	m.claim(wanted, names, func(p *Pod) bool { return !lost(p) })
	m.claim(wanted, names, lost)
	return wanted
}

// claim serves the pods of the offers whose UID and name no other offer has yet.
func (m *model) claim(wanted map[string]*Pod, names map[string]bool, about func(*Pod) bool) {
	for _, source := range m.sources {
		for _, o := range m.offers[source] {
			if !about(o.pod) {
				continue
			}
			name := o.pod.Namespace + "/" + o.pod.Name
			if wanted[o.pod.UID] != nil || names[name] && !o.pod.Mirror {
				continue
			}
			wanted[o.pod.UID] = o.pod
			if !o.pod.Mirror {
				names[name] = true
			}
		}
	}
}

// serve replaces the served pods. seen returns the first-seen time of a new pod of a source.
func (m *model) serve(wanted map[string]*Pod, seen func(source string) time.Time, number uint64) effect {
	did := silent
	next := make(map[string]*Pod, len(wanted))
	for uid, w := range wanted {
		p := *w
		p.Stale = m.stale(w)
		old := m.served[uid]
		switch {
		case old == nil || !p.continues(old):
			// A stored pod that returns before its source has delivered a set is the same pod.
			if p.Changed = number; !p.Stale {
				p.Seen = seen(p.Source)
			}
			did = visible
		case !p.same(old):
			p.Seen, p.Changed = old.Seen, number
			did = visible
		default:
			p.Seen, p.Changed = old.Seen, old.Changed
			if p.Stale != old.Stale || p.Origin != old.Origin {
				did = max(did, hidden)
			}
		}
		next[uid] = &p
	}
	for uid := range m.served {
		if next[uid] == nil {
			did = visible
		}
	}
	m.served = next
	return did
}

// stale reports whether an offer is known only from the store.
func (m *model) stale(p *Pod) bool { return p.Stale && !m.delivered[p.Source] }
