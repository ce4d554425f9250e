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

// Conflict is a pod that waits, and for what.
type Conflict struct {
	Waits, Winner Offer
	// SameUID is set if they have one UID; else they have one name.
	SameUID bool
}

// Offer is a pod with the source and the origin that offer it.
type Offer struct {
	Source, Origin string
	Pod            *manifest.Pod
}

func (c *candidate) offer() Offer { return Offer{Source: c.source.Name, Origin: c.origin.Name, Pod: c.pod} }

func (c Conflict) field() string {
	if c.SameUID {
		return "metadata.uid"
	}
	return "metadata.name"
}

// Message is the conflict in words. Only with winner does it tell of another pod than the one that waits: not everybody may know
// of its source.
func (c Conflict) Message(winner bool) string {
	what, where := "pod "+c.Waits.Pod.Namespace+"/"+c.Waits.Pod.Name, "elsewhere"
	if c.SameUID {
		what = "the uid of " + what
	}
	if winner {
		where = "by source " + c.Winner.Source + " in " + c.Winner.Origin
	}
	return what + " is defined " + where + " already, which has precedence; this one waits until that is gone"
}

// Conflicts are the pods that wait for another one's name or UID, each in words.
func (m *Merger) Conflicts() []string {
	var out []string
	for _, s := range m.sources {
		for _, c := range s.conflicts {
			out = append(out, c.Waits.Origin+": "+c.Message(true))
		}
	}
	return out
}

// arbitrate looks at all offered pods and lets each name and UID go to the first that claims it, in order of priority.
func (m *Merger) arbitrate() touchedPods {
	var touched touchedPods
	names, uids := map[string]*candidate{}, map[types.UID]*candidate{}
	for _, s := range m.sources {
		s.conflicts = nil
		for _, o := range s.origins {
			for _, c := range o.offers {
				if w := uids[c.pod.UID]; w != nil {
					s.conflicts = append(s.conflicts, Conflict{Waits: c.offer(), Winner: w.offer(), SameUID: true})
					continue
				}
				if w := names[fullName(c.pod)]; w != nil && !isMirror(c) {
					s.conflicts = append(s.conflicts, Conflict{Waits: c.offer(), Winner: w.offer()})
					continue
				}
				uids[c.pod.UID] = c
				if !isMirror(c) {
					names[fullName(c.pod)] = c
				}
				touched.want(c)
			}
		}
	}
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
