package robustness

import (
	"maps"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// Pod is one version of a pod as the oracle has it. It never changes.
type Pod struct {
	UID, Namespace, Name     string
	Source, Origin           string
	SpecDigest, StatusDigest string
	// Seen is when its source was read that had the pod first.
	Seen time.Time
	// Stale is set if its source hasn't spoken since the daemon started.
	Stale            bool
	Deleting, Mirror bool
	Node             string
	Labels           map[string]string
	// Changed is the revision that the version is of. That a pod is no longer stale, or in another origin, is no new version.
	Changed uint64
}

// continues tells whether p is a later version of the pod old, which has the same UID: with another source or name it is
// another pod.
func (p *Pod) continues(old *Pod) bool {
	return old.Source == p.Source && old.Name == p.Name && old.Namespace == p.Namespace
}

// same tells whether consumers see no difference between the two versions but, perhaps, that one is stale.
func (p *Pod) same(old *Pod) bool {
	return p.continues(old) && p.SpecDigest == old.SpecDigest && p.StatusDigest == old.StatusDigest
}

// State is what should be true at one revision. It never changes.
type State struct {
	// Pods are those that are served, by UID.
	Pods map[string]*Pod
	// Sources are the configured ones, in order of priority.
	Sources []SourceState
	// Complete are the sources, configured or not, all of whose pods have been known at some time of this store.
	Complete map[string]bool
}

// SourceState is what should be true of one source.
type SourceState struct {
	Name  string
	Ready bool
}

// Ready tells whether the source is ready.
func (s *State) Ready(source string) bool {
	return slices.Contains(s.Sources, SourceState{Name: source, Ready: true})
}

// configured tells whether the source is configured.
func (s *State) configured(source string) bool {
	return slices.ContainsFunc(s.Sources, func(src SourceState) bool { return src.Name == source })
}

// settled tells whether a pod of that source that isn't there is gone for good: the source is ready; or it is configured no
// longer, and all others are ready.
func (s *State) settled(source string) bool {
	all := true
	for _, src := range s.Sources {
		if src.Name == source {
			return src.Ready
		}
		all = all && src.Ready
	}
	return all
}

// effect is what one set did.
type effect int

const (
	// silent: there is nothing to tell anybody.
	silent effect = iota
	// hidden: something changed that no consumer is told of by an op; whether that counts as a revision is open.
	hidden
	// visible: there is a revision.
	visible
)

// offer is a pod that an origin has, served or not.
type offer struct {
	origin string
	pod    *Pod
}

// model is the oracle. For each set it works everything out anew: what every origin offers, who gets which name and UID, and
// how that differs from before.
type model struct {
	// sources are all that have a say, in order of priority; those that aren't configured any more come last.
	sources    []string
	configured []string
	// offers are what the origins of each source have, in order.
	offers map[string][]offer
	// good are the origins of a source of which it is known what they had.
	good     map[string]map[string]bool
	ready    map[string]bool
	complete map[string]bool
	spoken   map[string]bool
	served   map[string]*Pod
}

// newModel is the oracle for a daemon that has just started, with what its store had: nil for none.
func newModel(sources []string, stored *State) *model {
	m := &model{
		sources: slices.Clone(sources), configured: sources, offers: map[string][]offer{}, good: map[string]map[string]bool{},
		ready: map[string]bool{}, complete: map[string]bool{}, spoken: map[string]bool{}, served: map[string]*Pod{},
	}
	if stored == nil {
		return m
	}
	m.complete = maps.Clone(stored.Complete)
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

// state is what is true now.
func (m *model) state() *State {
	s := &State{Pods: maps.Clone(m.served), Complete: maps.Clone(m.complete)}
	for _, name := range m.configured {
		s.Sources = append(s.Sources, SourceState{Name: name, Ready: m.ready[name]})
	}
	return s
}

// clone is an oracle of its own that knows the same.
func (m *model) clone() *model {
	c := *m
	c.sources = slices.Clone(m.sources)
	c.offers, c.good, c.ready = maps.Clone(m.offers), maps.Clone(m.good), maps.Clone(m.ready)
	c.complete, c.spoken, c.served = maps.Clone(m.complete), maps.Clone(m.spoken), maps.Clone(m.served)
	return &c
}

// apply takes a set. number is the revision that it makes, if it makes one.
func (m *model) apply(set manifest.Set, number uint64) effect {
	if set.Err != nil || !slices.Contains(m.configured, set.Source) {
		return silent
	}
	m.take(set)
	m.spoken[set.Source] = true
	becameReady := !m.ready[set.Source] && (m.complete[set.Source] || m.allGood(set))
	if becameReady {
		m.ready[set.Source], m.complete[set.Source] = true, true
		m.dropFormer()
	}
	did := m.serve(m.arbitrate(), set.ReadTime, number)
	if becameReady {
		did = visible
	}
	return did
}

// take puts the set in the place of what its source offered before. An origin that is held keeps what it doesn't define anew;
// one that is missing is gone.
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
			anew := slices.ContainsFunc(given, func(g offer) bool {
				return g.pod.UID == old.pod.UID || g.pod.Namespace == old.pod.Namespace && g.pod.Name == old.pod.Name
			})
			if old.origin == o.Name && !anew {
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

// allGood tells whether of each origin of the set it is known what it had.
func (m *model) allGood(set manifest.Set) bool {
	return !slices.ContainsFunc(set.Origins, func(o *manifest.Origin) bool { return !m.good[set.Source][o.Name] })
}

// dropFormer forgets the sources that aren't configured, once all others are ready.
func (m *model) dropFormer() {
	for _, name := range m.configured {
		if !m.ready[name] {
			return
		}
	}
	m.sources = slices.Clone(m.configured)
}

// arbitrate gives each UID, and each full name but those of mirror pods, to the first that wants it.
func (m *model) arbitrate() map[string]*Pod {
	wanted, names := map[string]*Pod{}, map[string]bool{}
	for _, source := range m.sources {
		for _, o := range m.offers[source] {
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
	return wanted
}

// serve makes the wanted pods those that are served.
func (m *model) serve(wanted map[string]*Pod, read time.Time, number uint64) effect {
	did := silent
	next := make(map[string]*Pod, len(wanted))
	for uid, w := range wanted {
		p := *w
		p.Stale = m.stale(w)
		old := m.served[uid]
		switch {
		case old == nil || !p.continues(old):
			// A stored pod that comes back before its source has spoken is the pod that was there.
			if p.Changed = number; !p.Stale {
				p.Seen = read
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

// stale tells whether an offer is known from the store only.
func (m *model) stale(p *Pod) bool { return p.Stale && !m.spoken[p.Source] }
