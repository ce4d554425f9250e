package merge

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
)

// source is what one source offers, and the result of its last reading.
type source struct {
	Source
	// former is set if the source isn't configured any more.
	former bool
	// restored is set if the store had all pods of the source.
	restored bool
	// merged is set once a set of the source was merged.
	merged        bool
	ready         bool
	readyRevision uint64
	lastRead      time.Time
	lastHeard     time.Time
	lastErr       error
	// digest is that of its last good set.
	digest string
	// changed are the positions of the last change of its pods. Nil: not known.
	changed position.Positions
	origins []*origin
	byName  map[string]*origin
	// conflicts are the offered pods that wait for another pod's name or UID.
	conflicts []conflict
}

// origin is what one origin offers: the pods of its last reading, and those kept from before while it is held.
type origin struct {
	given  *manifest.Origin
	offers []*candidate
	kept   []*candidate
	// wasGood is set once the origin could be used in full: from then on its pods are known.
	wasGood bool
}

// complete reports whether all pods of the source are known: no origin is held that was never good, and none reports
// unknown pods. Such an origin may have had pods before the restart that still run, so they are not removed unless
// the store has them.
func (s *source) complete() bool { return s.unknown() == nil }

// unknown returns the first origin whose pods aren't known, or nil.
func (s *source) unknown() *origin {
	for _, o := range s.origins {
		if o.given.Unready || !o.wasGood && !s.restored {
			return o
		}
	}
	return nil
}

// heard reports whether the source was read, or is read now as the speaker: its candidates then come from the source
// and not from the store. speaker may be nil.
func (s *source) heard(speaker *source) bool { return s.merged || s == speaker }

// each calls f with every pod that the source offers, in order.
func (s *source) each(f func(*candidate)) {
	for _, o := range s.origins {
		for _, c := range o.offers {
			f(c)
		}
	}
}

// candidate is one pod that one origin offers.
type candidate struct {
	source *source
	origin *manifest.Origin
	pod    *manifest.Pod
}

// touchedPods are the UIDs that a set may have changed.
type touchedPods struct {
	// removed are candidates that are no longer offered, or are offered but not served.
	removed []types.UID
	// order are the candidates to serve, in the order of the source.
	order []*candidate
	// wanted are the candidates in order, by UID.
	wanted map[types.UID]*candidate
}

func (t *touchedPods) want(c *candidate) {
	if t.wanted == nil {
		t.wanted = map[types.UID]*candidate{}
	}
	t.wanted[c.pod.UID] = c
	t.order = append(t.order, c)
}

func (t *touchedPods) drop(c *candidate) {
	t.removed = append(t.removed, c.pod.UID)
}

// replace replaces the origins with those of a set, and returns the touched pods. An origin with the same pointer as
// before costs one comparison.
func (s *source) replace(given []*manifest.Origin, claims *claims) touchedPods {
	var touched touchedPods
	if changed, ok := s.changedInPlace(given); ok {
		for _, i := range changed {
			s.origins[i] = s.exchange(given[i], &touched, claims)
			s.byName[given[i].Name] = s.origins[i]
		}
		return touched
	}
	next := make([]*origin, len(given))
	byName := make(map[string]*origin, len(given))
	for i, g := range given {
		if old := s.byName[g.Name]; old != nil && old.given == g {
			next[i] = old
		} else {
			next[i] = s.exchange(g, &touched, claims)
		}
		byName[g.Name] = next[i]
	}
	for _, o := range s.origins {
		if byName[o.given.Name] == nil {
			for _, c := range o.offers {
				claims.release(c)
				touched.drop(c)
			}
		}
	}
	s.origins, s.byName = next, byName
	return touched
}

// changedInPlace returns the indexes of the changed origins. ok is false if names or order differ, as when a file was
// added or removed.
func (s *source) changedInPlace(given []*manifest.Origin) (changed []int, ok bool) {
	if len(given) != len(s.origins) {
		return nil, false
	}
	for i, g := range given {
		switch old := s.origins[i].given; {
		case old == g:
		case old.Name == g.Name:
			changed = append(changed, i)
		default:
			return nil, false
		}
	}
	return changed, true
}

// exchange withdraws what an origin offered before, and claims what it offers now.
func (s *source) exchange(given *manifest.Origin, touched *touchedPods, claims *claims) *origin {
	old := s.byName[given.Name]
	next := s.newOrigin(given, old)
	if old != nil {
		for _, c := range old.offers {
			claims.release(c)
			touched.drop(c)
		}
	}
	for _, c := range next.offers {
		claims.claim(c)
		touched.want(c)
	}
	return next
}

// newOrigin returns what an origin offers now: the pods it was given and, while it is held, its previous pods that it
// doesn't define again. A kept version of a pod is being deleted if the deletion is known.
func (s *source) newOrigin(given *manifest.Origin, old *origin) *origin {
	o := &origin{given: given, wasGood: !given.Held || old != nil && old.wasGood}
	uids, names := map[types.UID]bool{}, map[string]bool{}
	for _, p := range given.Pods {
		o.offers = append(o.offers, &candidate{source: s, origin: given, pod: p})
		uids[p.UID], names[fullName(p)] = true, true
	}
	if !given.Held || old == nil {
		return o
	}
	for _, c := range old.offers {
		another := given.Only != "" && given.Only != c.pod.UID
		if !another && !uids[c.pod.UID] && !names[fullName(c.pod)] {
			kept := &candidate{source: s, origin: given, pod: c.pod}
			if given.Deletion != nil {
				kept.pod = given.Deletion.Of(c.pod)
			}
			o.offers = append(o.offers, kept)
			o.kept = append(o.kept, kept)
		}
	}
	return o
}

func fullName(p *manifest.Pod) string { return p.Name + "_" + p.Namespace }
