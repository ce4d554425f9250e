package merge

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
)

// claims counts who offers which name and UID. As long as nobody claims the same thing twice, every offered pod is served and
// a merge need not look further than its own source.
type claims struct {
	names  map[string]int
	uids   map[types.UID]int
	doubly int
}

func newClaims() claims {
	return claims{names: map[string]int{}, uids: map[types.UID]int{}}
}

// contended tells whether some name or UID is claimed more than once.
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

// isMirror tells whether the pod is the API server's picture of a static pod: it bears that pod's name by design.
func isMirror(c *candidate) bool {
	_, ok := c.pod.Annotations[manifest.MirrorAnnotation]
	return ok
}

// conflict is a pod that waits, and for what.
type conflict struct {
	waits, winner *candidate
	sameUID       bool
}

// told is the conflict as others get it.
func (c conflict) told() Conflict {
	return Conflict{Waits: c.waits.offer(), Winner: c.winner.offer(), SameUID: c.sameUID}
}

func (c *candidate) offer() Offer {
	return Offer{Source: c.source.Name, Origin: c.origin.Name, Pod: c.pod}
}

// Conflicts are the pods that wait for another one's name or UID, each in words.
func (m *Merger) Conflicts() []string {
	var out []string
	for _, s := range m.sources {
		for _, c := range s.conflicts {
			out = append(out, c.waits.origin.Name+": "+c.told().Message(true))
		}
	}
	return out
}

// arbitrate looks at all offered pods and lets each name and UID go to the first that claims it, in order of priority. speaker is the
// source whose set is merged; nil if there is none.
//
// A pod that only the store knows, and that lost its place, gets what nobody else claims: its source may have dropped it long since,
// so it displaces no pod that another source has now. Once its source has spoken its priority counts.
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

// arbiter gives names and UIDs to those that claim them, one after the other.
type arbiter struct {
	names   map[string]*candidate
	uids    map[types.UID]*candidate
	touched touchedPods
}

// claim lets the source's candidate be served, or notes for whom it waits.
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
