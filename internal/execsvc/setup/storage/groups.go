package storage

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
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

// fsGroup returns the group to which the volume is changed for the pod. Nil: none.
func (v *Volume) fsGroup() *int64 {
	if v.ReadOnly {
		return nil
	}
	return v.FSGroup
}

// keepsGroup reports whether a new publication leaves the group of the volume's files as it is: that of the first pod, as with the kubelet's
// local volumes. A pod whose change isn't complete is no reason to keep it for one with the same group, as both need it. Others don't wait
// for that change: one that always fails keeps no pod waiting but those that need it. A pod that is gone has no files open.
func (s *state) keepsGroup(v *Volume) bool {
	shared := false
	for i := range s.Publications {
		p := &s.Publications[i]
		owed := p.Phase != record.Done && !p.KeepsGroup
		switch {
		case p.Phase == record.Undoing:
		case owed && p.FSGroup != nil && ptr.Equal(p.FSGroup, v.fsGroup()):
			return false
		default:
			shared = true
		}
	}
	return shared && v.fsGroup() != nil
}
