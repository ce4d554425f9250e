package storage

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Groups returns the groups that the pod's published volumes give to its processes, sorted. It waits for nothing.
func (s *Storage) Groups(uid types.UID) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []int64
	for t, e := range s.targets {
		if t.UID != uid {
			continue
		}
		if p := e.state.Publication(t); isDone(p) && p.Group != nil {
			all = append(all, *p.Group)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
