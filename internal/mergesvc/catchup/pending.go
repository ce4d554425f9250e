package catchup

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Pending are the pods that one consumer holds of sources that hadn't spoken when it subscribed. It belongs to one stream.
type Pending struct {
	known map[types.UID]Known
}

// Undecided are those of the known pods whose fate was open at revision number, where the consumer resumes: it has been told
// nothing of them, and isn't sent them again by what follows. st is the state at that revision or a later one; a pod that was
// there at that revision has been told.
func Undecided(st *history.State, number uint64, known []Known) *Pending {
	p := &Pending{known: map[types.UID]Known{}}
	told := map[types.UID]bool{}
	for _, pod := range st.Pods {
		told[pod.UID()] = pod.Created <= number
	}
	for _, t := range st.Tombstones {
		if t.Pod.Created <= number {
			told[t.Pod.UID()] = true
		}
	}
	for _, k := range known {
		if !told[k.UID] && !k.settled(st.Sources, number) {
			p.known[k.UID] = k
		}
	}
	return p
}

// Settle takes the changes that lead to a revision and returns what to send instead: without the pods that the consumer holds
// already, and with a REMOVE for those of its pods that are now known to be gone, or that come from another source now. A SET
// stays whole, as its consumer removes what isn't in it. sources are those at that revision or a later one. A nil Pending
// changes nothing.
func (p *Pending) Settle(changes []revision.Change, number uint64, sources history.Sources) []revision.Change {
	if p == nil || len(p.known) == 0 {
		return changes
	}
	var out []revision.Change
	var gone []Known
	for _, c := range changes {
		left := revision.Change{Op: c.Op, Source: c.Source}
		for _, pod := range c.Pods {
			k, ok := p.known[pod.UID()]
			delete(p.known, pod.UID())
			if ok && !k.continues(pod) {
				gone = append(gone, k)
			}
			if !ok || !k.is(pod) || c.Op == revision.SET || c.Op == revision.REMOVE {
				left.Pods = append(left.Pods, pod)
			}
			if c.Op != revision.REMOVE {
				gone = append(gone, p.replaced(pod)...)
			}
		}
		// An ADD that has become empty still says that its source is ready.
		if len(left.Pods) > 0 || len(c.Pods) == 0 || c.Op == revision.ADD {
			out = append(out, left)
		}
	}
	return append(p.removals(gone, number, sources), out...)
}

// replaced are the known pods whose name pod has taken.
func (p *Pending) replaced(pod *revision.Pod) []Known {
	var out []Known
	for uid, k := range p.known {
		if k.Source == pod.Source && k.Name == pod.Object.Name && k.Namespace == pod.Object.Namespace {
			out = append(out, k)
			delete(p.known, uid)
		}
	}
	return out
}

// is tells whether the known pod is just this version.
func (k Known) is(pod *revision.Pod) bool {
	return k.continues(pod) && k.SpecDigest == pod.SpecDigest &&
		(k.StatusDigest == "" || k.StatusDigest == pod.StatusDigest)
}

// removals are the REMOVEs of gone and of what is settled by now.
func (p *Pending) removals(gone []Known, number uint64, sources history.Sources) []revision.Change {
	for uid, k := range p.known {
		if k.settled(sources, number) {
			gone = append(gone, k)
			delete(p.known, uid)
		}
	}
	slices.SortFunc(gone, func(a, b Known) int { return strings.Compare(string(a.UID), string(b.UID)) })
	var b builder
	for _, k := range gone {
		b.add(revision.REMOVE, k.pod())
	}
	return b.changes(sources)
}
