package merge

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Configure replaces the configured sources. sources are in order of priority; their names are unique. It returns the
// revision of the change, whose Observed the caller sets. It returns nil if names and order are unchanged; then only
// their Locations are taken over.
//
// The pods of a removed source are removed at once, whichever sources are ready: unlike a source that is missing
// after a restart, an operator removed it deliberately. The same revision adds a pod that waited for their names or
// UIDs. A pod that loses its place to a source that now precedes its own is removed only if that source was read. A
// new source isn't ready until it is read. A former source, which only the store had, gets its stored pods back.
//
// The caller stops a removed source before: a later set is ignored, unless the name is configured again.
func (m *Merger) Configure(sources []Source) *revision.Revision {
	before := m.configured()
	names := make([]string, 0, len(sources))
	for _, s := range sources {
		names = append(names, s.Name)
	}
	if slices.Equal(before, names) {
		for i, s := range sources {
			m.sources[i].Location = s.Location
		}
		return nil
	}
	contended := m.claims.contended()
	touched := m.replaceSources(sources)
	former := m.dropFormer(&touched)
	if contended || m.claims.contended() {
		touched = m.arbitrate(nil)
	}
	m.number++
	var ops revision.Ops
	settled := m.update(&ops, touched, m.number, nil, time.Time{})
	rev := &revision.Revision{Number: m.number, Sources: names, Changes: ops.Changes(nil), Settled: settled}
	for _, name := range before {
		if !slices.Contains(names, name) {
			rev.Dropped = append(rev.Dropped, name)
		}
	}
	rev.Dropped = append(rev.Dropped, former...)
	for _, s := range m.sources {
		if !s.former && !s.restored && !slices.Contains(before, s.Name) {
			rev.Dropped = append(rev.Dropped, s.Name)
		}
	}
	m.place(rev)
	return rev
}

// configured are the names of the configured sources, in order.
func (m *Merger) configured() []string {
	var names []string
	for _, s := range m.sources {
		if !s.former {
			names = append(names, s.Name)
		}
	}
	return names
}

// replaceSources replaces the configured sources, and returns the touched pods: those of removed sources. Former
// sources stay behind the configured ones.
func (m *Merger) replaceSources(sources []Source) touchedPods {
	var touched touchedPods
	old := m.sources
	m.sources = make([]*source, 0, len(old))
	for _, s := range sources {
		i := slices.IndexFunc(old, func(o *source) bool { return o.Name == s.Name })
		if i < 0 {
			m.sources = append(m.sources, &source{Source: s, byName: map[string]*origin{}})
			continue
		}
		old[i].Location, old[i].former = s.Location, false
		m.sources = append(m.sources, old[i])
	}
	for _, s := range old {
		switch {
		case slices.Contains(m.sources, s):
		case s.former:
			m.sources = append(m.sources, s)
		default:
			m.drop(s, &touched)
		}
	}
	return touched
}

// drop withdraws all that a source offers.
func (m *Merger) drop(s *source, touched *touchedPods) {
	for _, o := range s.origins {
		for _, c := range o.offers {
			m.claims.release(c)
			touched.drop(c)
		}
	}
}
