package merge

import (
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// addFormer adds a source that only the store has, even if it has no pods: dropping it voids its record of having
// been ready. complete reports whether all its pods are stored.
func (m *Merger) addFormer(name string, complete bool) *source {
	src := &source{Source: Source{Name: name}, former: true, restored: complete, byName: map[string]*origin{}}
	m.sources = append(m.sources, src)
	return src
}

// restore adds a stored pod as if its origin had just been read, and serves it as stale.
func (m *Merger) restore(stored *revision.Pod) {
	src := m.source(stored.Source)
	if src == nil {
		src = m.addFormer(stored.Source, false)
	}
	o := src.byName[stored.Origin]
	if o == nil {
		o = &origin{given: &manifest.Origin{Name: stored.Origin}, wasGood: true}
		src.origins, src.byName[stored.Origin] = append(src.origins, o), o
	}
	pod := &manifest.Pod{Pod: stored.Object, SpecDigest: stored.SpecDigest, StatusDigest: stored.StatusDigest}
	o.given.Pods = append(o.given.Pods, pod)
	c := &candidate{source: src, origin: o.given, pod: pod}
	o.offers = append(o.offers, c)
	m.claims.claim(c)
	p := copied(stored)
	p.Stale = true
	m.served[p.UID()] = p
}

// dropFormer removes the former sources, with their pods, once every configured source is ready, and returns their
// names. Until then a configured source may turn out to have the pods.
func (m *Merger) dropFormer(touched *touchedPods) (names []string) {
	if slices.ContainsFunc(m.sources, func(s *source) bool { return !s.former && !s.ready }) {
		return nil
	}
	for _, s := range m.sources {
		if s.former {
			m.drop(s, touched)
			names = append(names, s.Name)
		}
	}
	m.sources = slices.DeleteFunc(m.sources, func(s *source) bool { return s.former })
	return names
}

// confirm returns the next versions, no longer stale, of the pods of a source that was read.
func (m *Merger) confirm(src *source) []*revision.Pod {
	if src.merged {
		return nil
	}
	src.merged = true
	var out []*revision.Pod
	for _, p := range m.served {
		if p.Stale && p.Source == src.Name {
			out = append(out, m.settle(p, p.Origin))
		}
	}
	slices.SortFunc(out, func(a, b *revision.Pod) int {
		return strings.Compare(a.FullName()+string(a.UID()), b.FullName()+string(b.UID()))
	})
	return out
}

// settle serves the pod as no longer stale, in the given origin.
func (m *Merger) settle(old *revision.Pod, origin string) *revision.Pod {
	p := copied(old)
	p.Stale, p.Origin = false, origin
	m.served[p.UID()] = p
	return p
}

// copied returns a copy of the pod that has no encodings yet.
func copied(p *revision.Pod) *revision.Pod {
	return &revision.Pod{
		Object: p.Object, Source: p.Source, Origin: p.Origin, Stale: p.Stale, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		Created: p.Created, SpecChanged: p.SpecChanged, StatusChanged: p.StatusChanged,
	}
}
