package stream

import (
	"cmp"
	"maps"
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// set replaces a SET by the ops that lead to it, in podconfigd's order. Held pods that the SET lacks become absent;
// settle decides about them.
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
			// Another source's pod has the UID now. Two pods can't have one UID, so the old one goes even if its
			// source isn't ready.
			add(opRemove, reference(old))
		default:
			i.outcome.absent[key] = true
		}
	})
	for _, gone := range ops[opRemove] {
		for _, p := range byUID(gone) {
			i.drop(keyOf(p))
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

// displace appends the REMOVEs of absent pods whose UIDs the pods of u have: podconfigd doesn't know that the consumer
// still holds them.
func (i *interpreter) displace(u *podconfigv1.PodUpdate, pods []*podconfigv1.Pod) {
	if len(i.outcome.absent) == 0 {
		return
	}
	sources := make(map[string]string, len(pods))
	for _, p := range pods {
		sources[p.GetRef().GetUid()] = p.GetSource()
	}
	gone := map[string][]*podconfigv1.Pod{}
	for key := range i.outcome.absent {
		if source, taken := sources[key.uid]; taken && source != key.source {
			gone[key.source] = append(gone[key.source], reference(i.pod(key)))
		}
	}
	for _, source := range slices.Sorted(maps.Keys(gone)) {
		for _, p := range byUID(gone[source]) {
			i.drop(keyOf(p))
		}
		i.op(u, opRemove, source, i.outcome.ready[source], gone[source])
	}
}

// renamed reports whether a pod has another name than the held one with its UID: it is another pod then. A held pod
// may have no name.
func renamed(old *podconfigv1.KnownPod, p *podconfigv1.Pod) bool {
	return old.GetName() != "" && (old.GetNamespace() != p.GetRef().GetNamespace() || old.GetName() != p.GetRef().GetName())
}

// same reports whether the held version is this version. A held pod without a status digest counts as having the
// current status.
func same(old *podconfigv1.KnownPod, p *podconfigv1.Pod) bool {
	return old.GetSpecDigest() == p.GetSpecDigest() && (old.GetStatusDigest() == "" || old.GetStatusDigest() == p.GetStatusDigest())
}

// byUID sorts in place.
func byUID(pods []*podconfigv1.Pod) []*podconfigv1.Pod {
	slices.SortFunc(pods, func(a, b *podconfigv1.Pod) int { return cmp.Compare(a.GetRef().GetUid(), b.GetRef().GetUid()) })
	return pods
}
