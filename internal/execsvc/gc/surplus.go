package gc

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// ended is a container that has ended, and what tells how soon it may go.
type ended struct {
	pod *observed.Pod
	observed.Container
	// newer is how many ended containers of its name the pod has that came after it.
	newer int
	// wanted is set if its pod is.
	wanted bool
	// needed is set for the last one of its name of a wanted pod: without it the container would be taken for one that never ran.
	needed bool
}

// surplus are the containers that go so that at most limit ended ones are left, in the order in which they go. None of them is needed or has
// ended after until, so more may be left. A limit below zero means that any number may.
//
// Pods that nobody wants come first. Then whoever has most of one name in one pod loses the oldest of them, until all have as many; of those
// that are equal in this the oldest goes first.
func surplus(found []*observed.Pod, wanted func(types.UID) bool, limit int, until time.Time) []ended {
	if limit < 0 {
		return nil
	}
	all := allEnded(found, wanted)
	excess := max(len(all)-limit, 0)
	all = slices.DeleteFunc(all, func(e ended) bool { return e.needed || e.at().After(until) })
	slices.SortFunc(all, func(a, b ended) int {
		return cmp.Or(
			compareWanted(a, b),
			-cmp.Compare(a.newer, b.newer),
			a.at().Compare(b.at()),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return all[:min(excess, len(all))]
}

func allEnded(found []*observed.Pod, wanted func(types.UID) bool) []ended {
	var all []ended
	for _, pod := range found {
		podWanted, newer := wanted(pod.UID), map[string]int{}
		// The newest come first.
		for _, c := range pod.Containers {
			if c.State != observed.Exited {
				continue
			}
			all = append(all, ended{
				pod: pod, Container: c, newer: newer[c.Name], wanted: podWanted, needed: podWanted && pod.Latest(c.Name).ID == c.ID,
			})
			newer[c.Name]++
		}
	}
	return all
}

// at is when it ended or, where that hasn't been read, when it was made.
func (e ended) at() time.Time {
	if e.Finished.IsZero() {
		return e.Created
	}
	return e.Finished
}

// compareWanted has those of pods that nobody wants come first.
func compareWanted(a, b ended) int {
	switch {
	case a.wanted == b.wanted:
		return 0
	case b.wanted:
		return -1
	default:
		return 1
	}
}
