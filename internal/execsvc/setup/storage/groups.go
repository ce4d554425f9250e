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
// local volumes. If a change isn't complete, a pod with the same group makes it too, as it needs it. Other pods don't wait for it: one that
// always fails keeps no pod waiting but those that need it. A pod that is gone has no files open.
func (s *state) keepsGroup(v *Volume) bool {
	group := v.fsGroup()
	if group == nil || ptr.Equal(group, s.OwedGroup) {
		return false
	}
	return slices.ContainsFunc(s.Publications, func(p record.Publication) bool { return p.Phase != record.Undoing })
}

// keepGroups has publications of another version that aren't complete leave the group of the files as it is, if another pod has the volume, as
// that version did: it didn't record that they do, nor which group their pods have.
func (s *state) keepGroups() {
	for i := range s.Publications {
		p := &s.Publications[i]
		if p.Phase != record.Unsure || p.FSGroup != nil {
			continue
		}
		for j, other := range s.Publications {
			if other.Phase == record.Done || j < i && other.Phase != record.Undoing {
				p.KeepsGroup = true
			}
		}
	}
}

// oweGroup records a change before it begins. A change to another group takes the place of an earlier one.
func (s *state) oweGroup(p *record.Publication) {
	if p.FSGroup != nil && !p.KeepsGroup {
		s.OwedGroup = p.FSGroup
	}
}

// settleGroup forgets a change that a publication has completed, and one of which no publication is left: the next one is the first.
func (s *state) settleGroup(p *record.Publication) {
	if len(s.Publications) == 0 || p != nil && p.Phase == record.Done && !p.KeepsGroup && ptr.Equal(p.FSGroup, s.OwedGroup) {
		s.OwedGroup = nil
	}
}
