package robustness

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ErrStray is in the errors of Relayed and Undisturbed: the end of a chain sent something that can't come from
// its head.
var ErrStray = errors.New("the end of the chain strays from its head")

// Relayed compares the pods at the end of a chain of relays, over time, with the pods at its head. At the end,
// each pod has only versions that the head had, in the same order, and is removed only if the head certainly
// had no version of it.
func Relayed(head, end *Run) error {
	had := head.scopes()
	for uid, course := range end.courses() {
		scope, at := had[uid], 0
		for i, s := range course {
			skipped := slices.IndexFunc(scope[min(at, len(scope)):], func(one []stage) bool { return slices.ContainsFunc(one, s.is) })
			if skipped < 0 {
				return fmt.Errorf("%w: pod %s: the end has %v, and after that %v; the head has %v", ErrStray, uid, course[:i], s, scope)
			}
			at += skipped
		}
	}
	return nil
}

// stage is a version of a pod, or its absence if pod is nil.
type stage struct{ pod *Pod }

// is reports whether it is the same stage of the same pod, in any source.
func (s stage) is(o stage) bool {
	if s.pod == nil || o.pod == nil {
		return s.pod == o.pod
	}
	return s.pod.Namespace == o.pod.Namespace && s.pod.Name == o.pod.Name &&
		s.pod.SpecDigest == o.pod.SpecDigest && s.pod.StatusDigest == o.pod.StatusDigest
}

func (s stage) String() string {
	if s.pod == nil {
		return "gone"
	}
	return fmt.Sprintf("%s/%s:%s:%s", s.pod.Namespace, s.pod.Name, short(s.pod.SpecDigest), short(s.pod.StatusDigest))
}

// courses returns the stages of each UID, in order. A pod counts as removed only where that is certain. Mirror
// pods are left out: a relay has them in one source with the pods whose names they have, and a consumer that
// reconnects may receive the REMOVE of a mirror pod as soon as that other pod exists.
func (r *Run) courses() map[string][]stage {
	out := map[string][]stage{}
	add := func(uid string, s stage) {
		if course := out[uid]; len(course) == 0 || !course[len(course)-1].is(s) {
			out[uid] = append(course, s)
		}
	}
	// known are the last versions of the pods that may still exist.
	known := map[string]*Pod{}
	for _, l := range r.lives {
		for _, state := range l.states() {
			for uid, p := range state.Pods {
				if p.Mirror {
					continue
				}
				if old := known[uid]; old != nil && !p.continues(old) {
					add(uid, stage{})
				}
				known[uid] = p
				add(uid, stage{p})
			}
			for uid, p := range known {
				if state.Pods[uid] == nil && state.settled(p.Source) {
					delete(known, uid)
					add(uid, stage{})
				}
			}
		}
	}
	return out
}

// scopes returns, for each UID and each revision, the stages that a relay of the run's daemon may show. These
// are the pod's version, or its absence while it waits for another pod's name. For a source that the daemon
// lost with its store, and that hasn't delivered a set since, a relay may show any version that the source ever
// had, or, because two of its pods may conflict, none.
func (r *Run) scopes() map[string][][]stage {
	out := map[string][][]stage{}
	// ever are all versions of all sources. lost are the lost sources.
	ever, lost := map[string]map[string][]stage{}, map[string]bool{}
	known := map[string]*Pod{}
	for _, l := range r.lives {
		if !l.start.Start.Kept {
			for source := range ever {
				lost[source] = true
			}
		}
		for _, state := range l.states() {
			maps.DeleteFunc(lost, func(source string, _ bool) bool { return state.settled(source) })
			for uid, p := range state.Pods {
				if ever[p.Source] == nil {
					ever[p.Source] = map[string][]stage{}
				}
				if all := ever[p.Source][uid]; !slices.ContainsFunc(all, stage{p}.is) {
					ever[p.Source][uid] = append(all, stage{p})
				}
				if old := known[uid]; old != nil && !p.continues(old) {
					out[uid] = append(out[uid], []stage{{}})
				}
				known[uid] = p
				out[uid] = append(out[uid], []stage{{p}})
			}
			for uid, p := range known {
				if state.Pods[uid] == nil && (state.settled(p.Source) || lost[p.Source] || state.displaces(p)) {
					out[uid] = append(out[uid], []stage{{}})
				}
			}
			for source := range lost {
				for uid, all := range ever[source] {
					last := len(out[uid]) - 1
					out[uid][last] = append(slices.Concat(out[uid][last], all), stage{})
				}
			}
		}
	}
	return out
}

// displaces reports whether another pod has the name of p.
func (s *State) displaces(p *Pod) bool {
	for _, other := range s.Pods {
		if other.Namespace == p.Namespace && other.Name == p.Name {
			return true
		}
	}
	return false
}

// Undisturbed checks that pods which never changed at the head of a chain are left alone at its end: once a
// consumer of all pods has one, it receives neither its removal nor a change of it.
func Undisturbed(end *Run, uids ...string) error {
	for _, p := range end.passages {
		if p.view.filtered() {
			continue
		}
		if what := disturbs(p, uids); what != "" {
			return fmt.Errorf("%w: %w", ErrStray, p.broken("%s; at the head it never changed", what))
		}
	}
	// A SET removes a pod without an op.
	for _, l := range end.lives {
		for _, state := range l.states() {
			for _, uid := range uids {
				if state.Pods[uid] == nil && slices.ContainsFunc(state.Sources, func(s SourceState) bool { return s.Ready }) {
					return fmt.Errorf("%w: the source is ready at the end, and has no %s; the head always has it", ErrStray, uid)
				}
			}
		}
	}
	return nil
}

// disturbs returns how a unit changes one of the pods, or "".
func disturbs(p *passage, uids []string) string {
	for _, c := range p.changes {
		uid, h := c.pod.GetRef().GetUid(), c.before
		switch {
		case c.pod == nil || !slices.Contains(uids, uid):
		case c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE:
			return uid + " is removed"
		case h != nil && (h.spec != "" && h.spec != c.pod.GetSpecDigest() || h.status != "" && h.status != c.pod.GetStatusDigest()):
			return uid + " changes"
		}
	}
	for _, f := range p.faults {
		if slices.Contains(uids, f.uid) {
			return f.String()
		}
	}
	return ""
}
