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

// Settle takes the changes that lead to a revision and returns what to send instead: without the pods that the consumer holds
// already, and with a REMOVE for those of its pods that are now known to be gone. sources are those at that revision or a
// later one. A nil Pending changes nothing.
func (p *Pending) Settle(changes []revision.Change, number uint64, sources history.Sources) []revision.Change {
	if p == nil || len(p.known) == 0 {
		return changes
	}
	var out []revision.Change
	for _, c := range changes {
		pods := slices.DeleteFunc(slices.Clone(c.Pods), p.holds)
		// An ADD that has become empty still says that its source is ready.
		if len(pods) > 0 || len(c.Pods) == 0 || c.Op == revision.ADD {
			out = append(out, revision.Change{Op: c.Op, Source: c.Source, Pods: pods})
		}
	}
	return append(p.removals(number, sources), out...)
}

// holds tells whether the consumer holds just this pod, and forgets it as pending: its source has spoken of it.
func (p *Pending) holds(pod *revision.Pod) bool {
	k, ok := p.known[pod.UID()]
	if !ok || k.Source != pod.Source {
		return false
	}
	delete(p.known, pod.UID())
	return k.SpecDigest == pod.SpecDigest && (k.StatusDigest == "" || k.StatusDigest == pod.StatusDigest)
}

func (p *Pending) removals(number uint64, sources history.Sources) []revision.Change {
	var gone []Known
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
