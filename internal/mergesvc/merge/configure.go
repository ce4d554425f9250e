package merge

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Configure makes these the configured sources, in order of priority; their names are unique. It returns the revision that tells
// of them, whose Observed is the caller's to set, or nil if they have the names and the order of before: then only their Locations
// are taken over.
//
// The pods of a source that went are removed at once, whoever else is ready: unlike a source that is missing after a restart, it
// was taken away by somebody who saw what it had. A pod that waited for their names or UIDs is added in the same revision, and
// one that loses its place to a source that stands before it now is removed: but only to one that has spoken. A new source has to
// speak before it is ready; of a former one, which only the store knew, the stored pods are its own again.
//
// Whoever reads a source that went has stopped before: a set that comes later is ignored, unless the name is configured again.
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
			rev.Forgotten = append(rev.Forgotten, name)
		}
	}
	rev.Forgotten = append(rev.Forgotten, former...)
	for _, s := range m.sources {
		if !s.former && !s.restored && !slices.Contains(before, s.Name) {
			rev.Forgotten = append(rev.Forgotten, s.Name)
		}
	}
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

// replaceSources puts the sources in place of the configured ones, and returns the pods that this touches: those of sources that
// went. Former ones stay behind them.
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

// drop takes back all that a source offers.
func (m *Merger) drop(s *source, touched *touchedPods) {
	for _, o := range s.origins {
		for _, c := range o.offers {
			m.claims.release(c)
			touched.drop(c)
		}
	}
}
