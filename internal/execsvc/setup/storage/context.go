package storage

import (
	"cmp"
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// A file system that is mounted with an SELinux context has no other one, at no mount point. So pods that use a volume at
// the same time have the same context. Before the volume is mounted with another one, all publications are undone, and
// the stage.

// leader returns the volume with whose traits and arguments the first call is made: that of the pod that has waited longest, so that pods
// that come and go keep none waiting for ever. Before it come those whose context matters, and before them those that must be in
// volumesInUse: also if a static pod has the volume too, the controller must not detach it.
func (s *state) leader() *Volume {
	var first *want
	for _, w := range s.wants {
		if first == nil || w.before(first) {
			first = &w
		}
	}
	return &first.volume
}

func (w *want) before(other *want) bool {
	rank := func(w *want) int {
		switch {
		case w.volume.UniqueName != "":
			return 0
		case w.volume.OneContext:
			return 1
		default:
			return 2
		}
	}
	return cmp.Or(cmp.Compare(rank(w), rank(other)), cmp.Compare(w.turn, other.turn)) < 0
}

// mountWith records the context of the first call.
func (s *state) mountWith(v *Volume) {
	if !s.Mounted() {
		s.SELinuxContext = v.SELinuxContext
	}
}

// readContext takes the context from the calls' arguments, if what is mounted has none by its record: an older podexecd, which has written
// the record since, keeps the arguments only.
func (s *state) readContext(b Backend) {
	labelled, ok := b.(Labelled)
	if !ok || s.SELinuxContext != "" || !s.Mounted() {
		return
	}
	all := []string{s.Stage.Args}
	for i := range s.Publications {
		all = append(all, s.Publications[i].Args)
	}
	for _, args := range all {
		if context := labelled.ContextOf(args); args != "" && context != "" {
			s.SELinuxContext = context
			return
		}
	}
}

// relabels reports whether a pod waits for the volume with another context than it is mounted with.
func (s *state) relabels() bool {
	if !s.Mounted() {
		return false
	}
	for t, w := range s.wants {
		if w.volume.OneContext && w.volume.SELinuxContext != s.SELinuxContext && s.Publication(t) == nil {
			return true
		}
	}
	return false
}

// conflict returns the error of a pod that can't use the volume because it is used with another context; nil: it can. name is the pod's
// volume: several of one pod may refer to the same volume. A publication that is being undone is no use, as its pod is gone: the volume is
// mounted with the new context afterwards.
func (s *state) conflict(t record.Target, pod, name string, v *Volume) error {
	if !v.OneContext {
		return nil
	}
	in := func(user string, of record.Target, volumes []string, has string) error {
		e := &ContextError{Volume: v.Name, User: cmp.Or(user, string(of.UID)), Pod: pod, Has: has, Wants: v.SELinuxContext}
		if of.UID == t.UID {
			e.Others = except(volumes, name)
		}
		return e
	}
	for i := range s.Publications {
		p := &s.Publications[i]
		// What the pod's own volume has stays as it is. Another volume of the pod doesn't get it.
		own := p.Target == t && p.Phase == record.Done && slices.Contains(p.Volumes, name)
		if s.SELinuxContext != v.SELinuxContext && s.kept(p.Target) && !own {
			return in(p.Pod, p.Target, p.Volumes, s.SELinuxContext)
		}
	}
	for _, other := range s.wanted() {
		w := s.wants[other]
		own := other == t && len(except(w.volumes, name)) == 0
		if !own && w.volume.OneContext && w.volume.SELinuxContext != v.SELinuxContext && s.Publication(other) == nil {
			return in(w.pod, other, w.volumes, w.volume.SELinuxContext)
		}
	}
	return nil
}

// except returns the names but one.
func except(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// pluginAndDriver returns the name of the volume's plugin in the kubelet's metrics.
func (v *Volume) pluginAndDriver() string { return v.Plugin + "/" + v.Driver }
