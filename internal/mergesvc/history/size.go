package history

import "github.com/podstream/podstream/internal/mergesvc/revision"

// podOverhead is the memory of a version of a pod beside its content.
const podOverhead = 4 << 10

// size is roughly the memory that a revision keeps in use: its pods, each as an object and in one or two encodings.
func size(rev *revision.Revision) int {
	n := 0
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			n += podOverhead + 3*p.Size()
		}
	}
	return n
}
