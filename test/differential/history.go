package differential

import (
	"encoding/json"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// History is the state that the rules have of the earlier steps. The zero value is before the first one.
type History struct {
	// served are the pods of each source's last set that upstream served.
	served map[string][]*v1.Pod
	// kept is what upstream keeps of those pods and doesn't update with each version.
	kept map[string]map[types.UID]kept
}

// kept is from the version of a pod that upstream received first, or updated last.
type kept struct {
	last   *v1.Pod
	first  *v1.Pod
	mirror string // empty means none
}

// Add adds a step.
func (h *History) Add(s Step) {
	if h.served == nil {
		h.served, h.kept = map[string][]*v1.Pod{}, map[string]map[types.UID]kept{}
	}
	next := map[types.UID]kept{}
	pods := servedUpstream(s.Pods)
	for _, pod := range pods {
		k := kept{last: pod, first: pod, mirror: pod.Annotations[kubetypes.ConfigMirrorAnnotationKey]}
		if before, ok := h.kept[s.Source][pod.UID]; ok {
			k.first = before.first
			k.mirror = before.mirrorAfter(pod)
		}
		next[pod.UID] = k
	}
	h.served[s.Source], h.kept[s.Source] = pods, next
}

// mirrorAfter returns upstream's value of config.mirror after it received the pod: it updates the annotations
// if the spec changed, but never this one.
func (k kept) mirrorAfter(pod *v1.Pod) string {
	if k.mirror == "" && changeOf(k.last, pod, reflect.DeepEqual) == specChange {
		return pod.Annotations[kubetypes.ConfigMirrorAnnotationKey]
	}
	return k.mirror
}

// holds reports whether the source has served a version of the pod with its last set.
func (h *History) holds(source string, uid types.UID) bool {
	_, ok := h.kept[source][uid]
	return ok
}

// eachHeld calls do for each pod of the step that the source has served before, until do returns true, and
// reports whether it did.
func (h *History) eachHeld(s Step, do func(before kept, pod *v1.Pod) bool) bool {
	for _, pod := range servedUpstream(s.Pods) {
		if before, ok := h.kept[s.Source][pod.UID]; ok && do(before, pod) {
			return true
		}
	}
	return false
}

// servedUpstream returns the pods of a set that upstream serves: of several with one full name, the first.
func servedUpstream(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	names := map[types.NamespacedName]bool{}
	for _, pod := range pods {
		if name := nameOf(pod); !names[name] {
			names[name] = true
			out = append(out, pod)
		}
	}
	return out
}

// servedPodstream returns the pods of a set that Podstream serves, if no other source has them: of several with
// one UID, or one full name without a mirror pod's annotation, the first.
func servedPodstream(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	names, uids := map[types.NamespacedName]bool{}, map[types.UID]bool{}
	for _, pod := range pods {
		name, mirror := nameOf(pod), isMirror(pod)
		if uids[pod.UID] || names[name] && !mirror {
			continue
		}
		uids[pod.UID] = true
		if !mirror {
			names[name] = true
		}
		out = append(out, pod)
	}
	return out
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func isMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[kubetypes.ConfigMirrorAnnotationKey]
	return ok
}

// change is the difference between a version of a pod and the previous one.
type change int

const (
	noChange change = iota
	statusChange
	specChange
)

func changeOf(before, after *v1.Pod, equal func(a, b any) bool) change {
	switch {
	case !equal(before.Spec, after.Spec) || !equal(before.Labels, after.Labels) ||
		!equal(before.DeletionTimestamp, after.DeletionTimestamp) ||
		!equal(before.DeletionGracePeriodSeconds, after.DeletionGracePeriodSeconds) ||
		!reflect.DeepEqual(lasting(before), lasting(after)):
		return specChange
	case !equal(before.Status, after.Status):
		return statusChange
	default:
		return noChange
	}
}

// lasting returns the annotations that aren't local.
func lasting(pod *v1.Pod) map[string]string {
	out := map[string]string{}
	for k, v := range pod.Annotations {
		switch k {
		case kubetypes.ConfigSourceAnnotationKey, kubetypes.ConfigMirrorAnnotationKey, kubetypes.ConfigFirstSeenAnnotationKey:
		default:
			out[k] = v
		}
	}
	return out
}

// sameJSON reports whether a and b have the same JSON. An empty map equals a missing one.
func sameJSON(a, b any) bool {
	return jsonOf(a) == jsonOf(b)
}

func jsonOf(value any) string {
	if m := reflect.ValueOf(value); m.Kind() == reflect.Map && m.Len() == 0 {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
