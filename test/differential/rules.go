package differential

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// Handling is how the test handles a difference that a Rule names.
type Handling int

const (
	// Avoided: the random sequences leave out steps that the rule recognises.
	Avoided Handling = iota
	// LeftOut: the comparison ignores what the rule names. The sequences have such steps.
	LeftOut
)

// Rule is an intended difference between upstream and Podstream.
type Rule struct {
	Name     string
	Handling Handling
	// Reason is what upstream does, and why Podstream does something else.
	Reason string
	// Recognises reports whether the step, after that history, is a case of the rule.
	Recognises func(h *History, s Step) bool
}

// Rules are all intended differences between the results for sets of pods. Each has an example in TestRules.
var Rules = []Rule{
	{
		Name: "uidInTwoSources",
		Reason: "Upstream serves both, and what becomes of them is undefined. Podstream serves the pod of the source first in " +
			"the configured order; the other one waits.",
		Recognises: func(h *History, s Step) bool {
			return h.others(s, func(a, b *v1.Pod) bool { return a.UID == b.UID })
		},
	},
	{
		Name: "nameInTwoSources",
		Reason: "Upstream serves both, one after the other as the workers get to them. Podstream serves the pod of the source " +
			"first in the configured order; the other one waits. A mirror pod bears its static pod's name on both sides.",
		Recognises: func(h *History, s Step) bool {
			return h.others(s, func(a, b *v1.Pod) bool { return nameOf(a) == nameOf(b) && !isMirror(a) && !isMirror(b) })
		},
	},
	{
		Name:   "uidTwiceInSet",
		Reason: "Upstream adds both pods in one op, under one UID. Podstream serves the first; the other one waits.",
		Recognises: func(_ *History, s Step) bool {
			uids := map[types.UID]bool{}
			for _, pod := range servedUpstream(s.Pods) {
				if uids[pod.UID] {
					return true
				}
				uids[pod.UID] = true
			}
			return false
		},
	},
	{
		Name: "mirrorBesideItsName",
		Reason: "Upstream ignores the second pod of a full name within one set, mirror pod or not. To Podstream a mirror pod " +
			"claims no name, within a set as between sources.",
		Recognises: func(_ *History, s Step) bool {
			upstream := map[*v1.Pod]bool{}
			for _, pod := range servedUpstream(s.Pods) {
				upstream[pod] = true
			}
			for _, pod := range servedPodstream(s.Pods) {
				if !upstream[pod] {
					return true
				}
			}
			return false
		},
	},
	{
		Name: "renamedUnderUID",
		Reason: "Upstream goes on with the old name, whatever else changes. To Podstream a pod with another name is another pod: " +
			"REMOVE and ADD in one revision.",
		Recognises: func(h *History, s Step) bool {
			return h.eachHeld(s, func(before kept, pod *v1.Pod) bool { return nameOf(before.last) != nameOf(pod) })
		},
	},
	{
		Name: "changedMirror",
		Reason: "Upstream takes config.mirror for its own annotation: it keeps the value that it has, and takes none with a " +
			"changed status. Podstream sends each version with the value that its source gave it.",
		Recognises: func(h *History, s Step) bool {
			return h.eachHeld(s, func(before kept, pod *v1.Pod) bool {
				return changeOf(before.last, pod, reflect.DeepEqual) != noChange &&
					before.mirrorAfter(pod) != pod.Annotations[kubetypes.ConfigMirrorAnnotationKey]
			})
		},
	},
	{
		Name: "writtenDifferently",
		Reason: "Upstream compares Go values: 1000m isn't 1, and an empty map isn't none. Podstream compares digests of " +
			"canonical JSON, so that no pod is updated to what it was.",
		Recognises: func(h *History, s Step) bool {
			return h.eachHeld(s, func(before kept, pod *v1.Pod) bool {
				return changeOf(before.last, pod, reflect.DeepEqual) != changeOf(before.last, pod, sameJSON)
			})
		},
	},
	{
		Name:     "wholeObject",
		Handling: LeftOut,
		Reason: "Upstream keeps the resourceVersion, owner references, finalizers and creation time that it saw first (an " +
			"unfinished part of it), and takes the generation with a changed spec only. Podstream sends the object as its source has it.",
		Recognises: func(h *History, s Step) bool {
			return h.eachHeld(s, func(before kept, pod *v1.Pod) bool {
				return changeOf(before.last, pod, reflect.DeepEqual) != noChange && !sameJSON(restOf(before.first), restOf(pod))
			})
		},
	},
	{
		Name:     "firstSeenTime",
		Handling: LeftOut,
		Reason: "Upstream's config.seen is when it merged the pod. Podstream's is when the source was read, in UTC, and the same " +
			"for all pods of a set. Compared is at which step a pod was first seen.",
		Recognises: func(h *History, s Step) bool {
			for _, pod := range servedUpstream(s.Pods) {
				if !h.holds(s.Source, pod.UID) {
					return true
				}
			}
			return false
		},
	},
	{
		Name:     "removeByReference",
		Handling: LeftOut,
		Reason:   "Upstream's REMOVE has whole pods. Podstream's has their references and digests, which is what is needed to end them.",
		Recognises: func(h *History, s Step) bool {
			left := map[types.UID]bool{}
			for _, pod := range servedUpstream(s.Pods) {
				left[pod.UID] = true
			}
			for uid := range h.kept[s.Source] {
				if !left[uid] {
					return true
				}
			}
			return false
		},
	},
}

// others reports whether a pod of the step conflicts with one of another source.
func (h *History) others(s Step, clash func(a, b *v1.Pod) bool) bool {
	for source, theirs := range h.served {
		if source == s.Source {
			continue
		}
		for _, b := range theirs {
			for _, a := range servedUpstream(s.Pods) {
				if clash(a, b) {
					return true
				}
			}
		}
	}
	return false
}

// restOf returns the metadata that consumers don't use.
func restOf(pod *v1.Pod) v1.Pod {
	rest := v1.Pod{}
	rest.ResourceVersion, rest.Generation, rest.CreationTimestamp = pod.ResourceVersion, pod.Generation, pod.CreationTimestamp
	rest.OwnerReferences, rest.Finalizers = pod.OwnerReferences, pod.Finalizers
	return rest
}
