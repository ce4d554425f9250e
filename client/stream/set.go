package stream

import (
	"cmp"
	"maps"
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// set turns a SET into the ops that lead there, in the order in which podconfigd would have sent them. What it doesn't have is
// absent: settle decides what that means.
func (i *interpreter) set(u *podconfigv1.PodUpdate) {
	ops := map[podconfigv1.PodOperation]map[string][]*podconfigv1.Pod{
		opRemove: {}, opAdd: {}, opUpdate: {}, opDelete: {}, opReconcile: {},
	}
	add := func(op podconfigv1.PodOperation, p *podconfigv1.Pod) {
		ops[op][p.GetSource()] = append(ops[op][p.GetSource()], p)
	}
	i.brought = make(map[podKey]bool, len(u.GetPods()))
	sources := make(map[string]string, len(u.GetPods()))
	for _, p := range u.GetPods() {
		i.brought[keyOf(p)] = true
		sources[p.GetRef().GetUid()] = p.GetSource()
	}
	i.each(func(key podKey, old *podconfigv1.KnownPod) {
		source, taken := sources[key.uid]
		switch {
		case i.brought[key]:
		case taken && source != key.source:
			// Another source's pod has the UID now: two pods with one UID can't be, ready or not.
			add(opRemove, reference(old))
		default:
			i.outcome.absent[key] = true
		}
	})
	for _, gone := range ops[opRemove] {
		for _, p := range byUID(gone) {
			i.forget(keyOf(p))
		}
	}
	for _, p := range u.GetPods() {
		old := i.pod(keyOf(p))
		switch {
		case old == nil:
			add(opAdd, p)
		case renamed(old, p):
			add(opRemove, reference(old))
			add(opAdd, p)
		case same(old, p):
		case old.GetSpecDigest() == p.GetSpecDigest():
			add(opReconcile, p)
		case deleting(p):
			add(opDelete, p)
		default:
			add(opUpdate, p)
		}
		i.hold(p)
	}
	for _, op := range []podconfigv1.PodOperation{opRemove, opAdd, opUpdate, opDelete, opReconcile} {
		for _, source := range slices.Sorted(maps.Keys(ops[op])) {
			i.op(u, op, source, i.outcome.ready[source], ops[op][source])
		}
	}
}

// renamed tells whether a pod bears another name than the held one with its UID: then it is another pod. A held pod may have come
// without a name.
func renamed(old *podconfigv1.KnownPod, p *podconfigv1.Pod) bool {
	return old.GetName() != "" && (old.GetNamespace() != p.GetRef().GetNamespace() || old.GetName() != p.GetRef().GetName())
}

// same tells whether the pod is held as it is. A held pod without a status digest is taken to have the current status.
func same(old *podconfigv1.KnownPod, p *podconfigv1.Pod) bool {
	return old.GetSpecDigest() == p.GetSpecDigest() && (old.GetStatusDigest() == "" || old.GetStatusDigest() == p.GetStatusDigest())
}

// byUID sorts in place.
func byUID(pods []*podconfigv1.Pod) []*podconfigv1.Pod {
	slices.SortFunc(pods, func(a, b *podconfigv1.Pod) int { return cmp.Compare(a.GetRef().GetUid(), b.GetRef().GetUid()) })
	return pods
}
