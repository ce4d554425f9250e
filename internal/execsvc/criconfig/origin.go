package criconfig

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	// relayPathAnnotation tells how a pod came that another podconfigd has relayed: NODE(ID)/SOURCE for each on the way, the first one last.
	relayPathAnnotation = "podstream.io/relay-path"
	apiSource           = "api"
)

// Static tells whether the pod's manifest comes from a file or a URL, and not from an API server.
func Static(pod *v1.Pod) bool {
	kind := sourceKind(pod)
	return kind != "" && kind != apiSource
}

// FromAPI tells whether the pod is an API server's: it came from there, perhaps through other podconfigds. Of a pod whose source isn't known
// neither this nor Static is true.
func FromAPI(pod *v1.Pod) bool { return sourceKind(pod) == apiSource }

// sourceKind is the kind of the source that the pod came from first: "file", "http", "api". Empty: that isn't known.
func sourceKind(pod *v1.Pod) string {
	source := pod.Annotations[ConfigSourceAnnotation]
	if way := pod.Annotations[relayPathAnnotation]; way != "" {
		_, source, _ = strings.Cut(way[strings.LastIndex(way, ",")+1:], "/")
	}
	kind, _, _ := strings.Cut(source, ":")
	return kind
}

// Mirror tells whether the pod is the API server's picture of a static pod, which is nothing to run.
func Mirror(pod *v1.Pod) bool {
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirror
}
