package podmeta

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	apiSource     = "api"
	appliedSource = "applied"
)

// Source returns the name of the source that podconfigd has the pod from; empty if it isn't known.
func Source(pod *v1.Pod) string { return pod.Annotations[SourceAnnotation] }

// IsStatic reports whether the pod's manifest comes from a file, a URL, an artifact or a caller that wrote it, and not from an
// API server.
func IsStatic(pod *v1.Pod) bool {
	kind := sourceKind(pod)
	return kind != "" && kind != apiSource
}

// FromAPI reports whether the pod comes from an API server, directly or through other podconfigds. If the pod's source
// isn't known, both FromAPI and IsStatic are false.
func FromAPI(pod *v1.Pod) bool { return sourceKind(pod) == apiSource }

// AppliedBy returns the identity of the caller that wrote the pod to the podconfigd that podexecd follows; empty if the pod
// has another source, also one of another podconfigd.
func AppliedBy(pod *v1.Pod) string {
	if Source(pod) != appliedSource {
		return ""
	}
	return pod.Annotations[AppliedByAnnotation]
}

// sourceKind returns the kind of the first source on the pod's path: "file", "http", "oci", "applied" or "api". It is empty if
// the source isn't known.
func sourceKind(pod *v1.Pod) string {
	source := Source(pod)
	if path := pod.Annotations[RelayPathAnnotation]; path != "" {
		_, source, _ = strings.Cut(path[strings.LastIndex(path, ",")+1:], "/")
	}
	kind, _, _ := strings.Cut(source, ":")
	return kind
}

// IsMirror reports whether the pod is a mirror pod. Mirror pods are never run.
func IsMirror(pod *v1.Pod) bool {
	_, mirror := pod.Annotations[MirrorAnnotation]
	return mirror
}
