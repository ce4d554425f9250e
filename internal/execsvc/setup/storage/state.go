package storage

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// state is what is known of one driver's volume, and what pods want of it.
type state struct {
	// Volume is the part that is recorded. It has only publications that may exist.
	record.Volume
	// wants are the publications that pods want.
	wants map[record.Target]want
	// held are recorded publications that no pod has wanted or given up since podexecd started. They stay.
	held map[record.Target]bool
	// renew are the publications whose call is to be repeated, to give the driver new tokens.
	renew map[record.Target]bool
	// grow is an expansion that is requested, and not begun.
	grow *expansion
	// refused is set if the driver has refused to unstage the volume since podexecd started, and hasn't unstaged it since.
	refused bool
	// turn numbers the wants.
	turn int
	// stale is set while remains of another boot are cleaned up. Nothing is made meanwhile.
	stale bool
	// revision counts the changes of the recorded part by pods.
	revision int
}

// want is a publication that a pod wants. It has what a first call needs.
type want struct {
	volume Volume
	// volumes are the names of the pod's volumes, sorted.
	volumes []string
	dir     string
	// pod is the pod's namespace and name.
	pod string
	// turn is the want's number: the pod that has waited longest has the lowest one.
	turn int
}

// expansion is a request to expand a volume.
type expansion struct {
	target record.Target
	args   string
	// done receives the result; it has room for it.
	done chan error
}

func newState(k record.Key) state {
	return state{Volume: record.Volume{Key: k}, wants: map[record.Target]want{}, held: map[record.Target]bool{}, renew: map[record.Target]bool{}}
}

// clone returns a deep copy of the state.
func (s *state) clone() state {
	return state{
		Volume: s.Volume.Clone(), wants: maps.Clone(s.wants), held: maps.Clone(s.held), renew: maps.Clone(s.renew), grow: s.grow,
		stale: s.stale, revision: s.revision, refused: s.refused, turn: s.turn,
	}
}

// recovered returns the state of a record after a restart. Publications are held. The mounts of another boot are gone,
// and so are its drivers' calls: all that remains of them is cleaned up.
func recovered(v *record.Volume, boot string) state {
	s := newState(v.Key)
	s.Volume = v.Clone()
	s.stale = v.Boot != boot && v.Mounted()
	for i := range s.Publications {
		p := &s.Publications[i]
		switch {
		case p.Phase == record.Undoing:
		case s.stale:
			p.Phase, p.Pending = record.Undoing, false
		default:
			s.held[p.Target] = true
		}
	}
	s.keepGroups()
	if s.stale {
		if s.Stage.Phase != record.None && s.Stage.Phase != record.Undoing {
			s.Stage.Phase, s.Stage.Pending = record.Undoing, false
		}
		s.Stage.Reusable = false
		s.Expand, s.ExpandTarget = record.Call{}, record.Target{}
	}
	if !s.Mounted() {
		s.Attached, s.Context = false, nil
		s.confirmUse()
	}
	return s
}

// confirmUse has volumesInUse written again before the next volume is staged: the Node may be another one meanwhile.
func (s *state) confirmUse() {
	if s.Use == record.InUse {
		s.Use = record.AddingUse
	}
}

// unmounted is called when nothing may exist on the node any more.
func (s *state) unmounted() {
	// The volume may be detached from now on, and attached elsewhere.
	s.Attached, s.Context = false, nil
	if s.stale {
		s.confirmUse()
	}
	s.stale = false
	s.refresh()
}

// refresh takes the traits of the wanted volume. Nothing is mounted: what is mounted was made with the recorded traits,
// and is undone with them.
func (s *state) refresh() {
	if len(s.wants) == 0 {
		return
	}
	unique := s.UniqueName
	s.Traits = s.leader().Traits
	if s.Use != record.NotInUse {
		s.UniqueName = unique
	}
}

// maxNames bounds the names of publications to which names are added: that mustn't use up the room by which a record that is full of
// publications can still be written, so that pods end.
const maxNames = 1 << 20

// hasRoom reports whether the publication can have these names too.
func (s *state) hasRoom(t record.Target, names []string) bool {
	p := s.Publication(t)
	if p == nil || len(union(p.Volumes, names)) == len(p.Volumes) {
		return true // A new publication is bounded with its record.
	}
	size := 0
	for i := range s.Publications {
		for _, name := range s.Publications[i].Volumes {
			size += len(name) + len(`"",`)
		}
	}
	for _, name := range names {
		size += len(name) + len(`"",`)
	}
	return size <= maxNames
}

// setWant records that a pod wants a publication.
func (s *state) setWant(t record.Target, w want) {
	if had, is := s.wants[t]; is {
		w.turn = had.turn
	} else {
		s.turn++
		w.turn = s.turn
	}
	s.wants[t] = w
	delete(s.held, t)
	if p := s.Publication(t); p != nil {
		if all := union(p.Volumes, w.volumes); !slices.Equal(all, p.Volumes) {
			p.Volumes = all
			s.revision++
		}
	}
	if !s.Mounted() {
		s.refresh()
	}
}

// yield has the pods wait longest again that want the volume staged with these arguments, as the first such call has failed: otherwise one
// whose call always fails would keep all others waiting.
func (s *state) yield(args string) {
	for _, t := range s.wanted() {
		if w := s.wants[t]; w.volume.StageArgs == args {
			s.turn++
			w.turn = s.turn
			s.wants[t] = w
		}
	}
}

// drop records that no pod wants the publication.
func (s *state) drop(t record.Target) {
	delete(s.wants, t)
	delete(s.held, t)
	delete(s.renew, t)
	if s.grow != nil && s.grow.target == t {
		s.grow = nil
	}
}

// kept reports whether the publication must stay.
func (s *state) kept(t record.Target) bool {
	_, wanted := s.wants[t]
	return wanted || s.held[t]
}

// isDevice reports whether the target is a block device, or is to be one.
func (s *state) isDevice(t record.Target) bool {
	if p := s.Publication(t); p != nil {
		return p.Device
	}
	return s.wants[t].volume.Device
}

// wanted returns the wanted targets in a fixed order.
func (s *state) wanted() []record.Target {
	return slices.SortedFunc(maps.Keys(s.wants), func(a, b record.Target) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Name, b.Name))
	})
}

// recorded returns the record of the state. A record of another boot keeps its boot until all is cleaned up.
func (s *state) recorded(agent, boot string) record.Volume {
	v := s.Volume.Clone()
	v.Version, v.Agent = record.Version, agent
	if !s.stale {
		v.Boot = boot
	}
	return v
}

// unattached reports whether the volume is mounted, and isn't in volumesInUse by the name that it must have for a pod: the controller
// may attach and detach it as it likes. That is so if a static pod has it, or if its driver has come to need an attachment.
func (s *state) unattached(v *Volume) bool {
	return s.Mounted() && v.UniqueName != "" && s.UniqueName != v.UniqueName
}

// user returns a pod other than that of the UID which wants the volume, or has it; empty: there is none.
func (s *state) user(other types.UID) string {
	for _, t := range s.wanted() {
		if t.UID != other {
			return cmp.Or(s.wants[t].pod, string(t.UID))
		}
	}
	for _, p := range s.Publications {
		if p.UID != other {
			return cmp.Or(p.Pod, string(p.UID))
		}
	}
	return ""
}

// exclusive reports whether a pod other than that of the UID wants the volume, or has it, and doesn't share it. The access modes of
// its claim may have changed since.
func (s *state) exclusive(other types.UID) bool {
	for t, w := range s.wants {
		if t.UID != other && w.volume.Exclusive {
			return true
		}
	}
	return slices.ContainsFunc(s.Publications, func(p record.Publication) bool { return p.UID != other && p.Exclusive })
}

// blank reports whether there is nothing to record.
func (s *state) blank() bool { return !s.Mounted() && s.Use == record.NotInUse }

// union returns the elements of both sorted lists, sorted.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
