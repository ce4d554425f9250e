package merge

import (
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// opOrder is the order of ops within a revision: the kubelet's.
var opOrder = []revision.Op{revision.REMOVE, revision.ADD, revision.UPDATE, revision.DELETE, revision.RESTORE}

// opList collects a revision's changes, one for each op and source.
type opList struct {
	list []revision.Change
	// empty names the source that became ready without any other word.
	empty string
}

func (l *opList) add(op revision.Op, pod, was *revision.Pod) {
	i := slices.IndexFunc(l.list, func(c revision.Change) bool { return c.Op == op && c.Source == pod.Source })
	if i < 0 {
		i = len(l.list)
		l.list = append(l.list, revision.Change{Op: op, Source: pod.Source})
	}
	l.list[i].Pods = append(l.list[i].Pods, pod)
	if was != nil {
		l.list[i].Was = append(l.list[i].Was, was)
	}
}

// tellsOf tells whether the ops themselves show that the source has spoken: the kubelet sends its empty ADD only where adds,
// updates and deletes are all empty.
func (l *opList) tellsOf(source string) bool {
	return slices.ContainsFunc(l.list, func(c revision.Change) bool {
		return c.Source == source && (c.Op == revision.ADD || c.Op == revision.UPDATE || c.Op == revision.DELETE)
	})
}

// changes is the list in the order of delivery.
func (l *opList) changes() []revision.Change {
	var out []revision.Change
	pick := func(op revision.Op) {
		for _, c := range l.list {
			if c.Op == op {
				out = append(out, c)
			}
		}
	}
	for _, op := range opOrder {
		pick(op)
	}
	if l.empty != "" {
		out = append(out, revision.Change{Op: revision.ADD, Source: l.empty})
	}
	pick(revision.RECONCILE)
	return out
}
