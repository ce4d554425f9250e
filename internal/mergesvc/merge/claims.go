package merge

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
)

// claims counts the candidates of each name and UID. While nothing is claimed twice, every offered pod is served, and
// a merge looks only at its own source.
type claims struct {
	names  map[string]int
	uids   map[types.UID]int
	doubly int
}

func newClaims() claims {
	return claims{names: map[string]int{}, uids: map[types.UID]int{}}
}

// contended reports whether some name or UID is claimed more than once.
func (c *claims) contended() bool { return c.doubly > 0 }

func (c *claims) claim(p *candidate) {
	if !isMirror(p) {
		if c.names[fullName(p.pod)]++; c.names[fullName(p.pod)] == 2 {
			c.doubly++
		}
	}
	if c.uids[p.pod.UID]++; c.uids[p.pod.UID] == 2 {
		c.doubly++
	}
}

func (c *claims) release(p *candidate) {
	if !isMirror(p) {
		release(c.names, fullName(p.pod), &c.doubly)
	}
	release(c.uids, p.pod.UID, &c.doubly)
}

func release[K comparable](counts map[K]int, key K, doubly *int) {
	counts[key]--
	switch counts[key] {
	case 1:
		*doubly--
	case 0:
		delete(counts, key)
	}
}

// isMirror reports whether the pod is a mirror pod: it has the name of its static pod by design.
func isMirror(c *candidate) bool {
	_, ok := c.pod.Annotations[manifest.MirrorAnnotation]
	return ok
}

// conflict is a pod that waits, and the name or UID that it waits for.
type conflict struct {
	waits, winner *candidate
	sameUID       bool
}

// public returns the conflict as callers get it.
func (c conflict) public() Conflict {
	return Conflict{Waits: c.waits.offer(), Winner: c.winner.offer(), SameUID: c.sameUID}
}

func (c *candidate) offer() Offer {
	return Offer{Source: c.source.Name, Origin: c.origin.Name, Pod: c.pod}
}

// Conflicts describes the pods that wait for another pod's name or UID.
func (m *Merger) Conflicts() []string {
	var out []string
	for _, s := range m.sources {
		for _, c := range s.conflicts {
			out = append(out, c.waits.origin.Name+": "+c.public().Message(true))
		}
	}
	return out
}

// arbitrate looks at all offered pods, and gives each name and UID to the first pod that claims it, in order of
// priority. speaker is the source whose set is merged, or nil.
//
// A stale pod that lost its place gets only what no other pod claims: its source may have dropped it long ago, so it
// displaces no pod that another source has now. Once its source was read, its priority counts.
func (m *Merger) arbitrate(speaker *source) touchedPods {
	a := arbiter{names: map[string]*candidate{}, uids: map[types.UID]*candidate{}}
	for _, s := range m.sources {
		s.conflicts = nil
		s.each(func(c *candidate) {
			if s.heard(speaker) || continues(c, m.served[c.pod.UID]) {
				a.claim(s, c)
			}
		})
	}
	for _, s := range m.sources {
		if s.heard(speaker) {
			continue
		}
		s.each(func(c *candidate) {
			if !continues(c, m.served[c.pod.UID]) {
				a.claim(s, c)
			}
		})
	}
	touched := a.touched
	for uid, p := range m.served {
		if !continues(touched.wanted[uid], p) {
			touched.removed = append(touched.removed, uid)
		}
	}
	slices.SortFunc(touched.removed, func(a, b types.UID) int {
		return strings.Compare(m.served[a].FullName(), m.served[b].FullName())
	})
	return touched
}

// arbiter gives names and UIDs to the candidates, one after the other.
type arbiter struct {
	names   map[string]*candidate
	uids    map[types.UID]*candidate
	touched touchedPods
}

// claim serves the source's candidate, or records which pod it waits for.
func (a *arbiter) claim(s *source, c *candidate) {
	if w := a.uids[c.pod.UID]; w != nil {
		s.conflicts = append(s.conflicts, conflict{waits: c, winner: w, sameUID: true})
		return
	}
	if w := a.names[fullName(c.pod)]; w != nil && !isMirror(c) {
		s.conflicts = append(s.conflicts, conflict{waits: c, winner: w})
		return
	}
	a.uids[c.pod.UID] = c
	if !isMirror(c) {
		a.names[fullName(c.pod)] = c
	}
	a.touched.want(c)
}
