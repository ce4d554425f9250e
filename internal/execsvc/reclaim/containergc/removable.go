package containergc

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// exitedContainer is an exited container with its rank for removal.
type exitedContainer struct {
	pod *observed.Pod
	observed.Container
	// newer is the number of newer exited containers of its name in the pod.
	newer int
	// podWanted is set if its pod is wanted.
	podWanted bool
	// keep is set for the last container of its name of a wanted pod: without it the container would seem never to
	// have run.
	keep bool
}

// removable returns the containers to remove, in order, so that at most limit exited ones are left. It leaves more if
// containers must be kept or exited after until. An exit time after now dates from before the node's clock was set
// back: such a container's age is unknown, and it may be removed. A limit below zero means any number.
//
// Containers of unwanted pods come first. Then the oldest containers of the names with the most exited containers,
// until all names have as many; among equals, the oldest container.
func removable(found []*observed.Pod, wanted func(types.UID) bool, limit int, until, now time.Time) []exitedContainer {
	if limit < 0 {
		return nil
	}
	all := exitedContainers(found, wanted)
	excess := max(len(all)-limit, 0)
	all = slices.DeleteFunc(all, func(e exitedContainer) bool { return e.keep || e.at().After(until) && !e.at().After(now) })
	slices.SortFunc(all, func(a, b exitedContainer) int {
		return cmp.Or(
			comparePodWanted(a, b),
			-cmp.Compare(a.newer, b.newer),
			a.at().Compare(b.at()),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return all[:min(excess, len(all))]
}

func exitedContainers(found []*observed.Pod, wanted func(types.UID) bool) []exitedContainer {
	var all []exitedContainer
	for _, pod := range found {
		podWanted, newer := wanted(pod.UID), map[string]int{}
		// The newest comes first.
		for _, c := range pod.Containers {
			if c.State != observed.Exited {
				continue
			}
			all = append(all, exitedContainer{
				pod: pod, Container: c, newer: newer[c.Name], podWanted: podWanted, keep: podWanted && pod.Latest(c.Name).ID == c.ID,
			})
			newer[c.Name]++
		}
	}
	return all
}

// at returns when the container exited or, if that hasn't been read, when it was created.
func (e exitedContainer) at() time.Time {
	if e.Finished.IsZero() {
		return e.Created
	}
	return e.Finished
}

// comparePodWanted sorts containers of unwanted pods first.
func comparePodWanted(a, b exitedContainer) int {
	switch {
	case a.podWanted == b.podWanted:
		return 0
	case b.podWanted:
		return -1
	default:
		return 1
	}
}
