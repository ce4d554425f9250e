package podmeta

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The annotations that podconfigd's merge sets on pods.
const (
	// SourceAnnotation has the name of the pod's source.
	SourceAnnotation = "kubernetes.io/config.source"
	// SeenAnnotation has the time at which podconfigd first saw the pod, as RFC 3339 with nanoseconds.
	SeenAnnotation = "kubernetes.io/config.seen"
	// HashAnnotation has the hash of a static pod's manifest. Its mirror pod has the same value as MirrorAnnotation.
	HashAnnotation = "kubernetes.io/config.hash"
	// MirrorAnnotation is on mirror pods only.
	MirrorAnnotation = v1.MirrorPodAnnotationKey
	// RelayPathAnnotation has NODE(ID)/SOURCE for each podconfigd that relayed the pod. The last one is the first on
	// the path.
	RelayPathAnnotation = "podstream.io/relay-path"
	// AppliedByAnnotation has the identity of the caller that wrote the pod. Only the source "applied" sets it.
	AppliedByAnnotation = "podstream.io/applied-by"
)

// The labels and annotations on sandboxes and containers. The labels have the kubelet's keys
// (pkg/kubelet/kuberuntime/labels.go).
const (
	PodNameLabel       = "io.kubernetes.pod.name"
	PodNamespaceLabel  = "io.kubernetes.pod.namespace"
	PodUIDLabel        = "io.kubernetes.pod.uid"
	ContainerNameLabel = "io.kubernetes.container.name"

	// AgentAnnotation has the agent ID of the podexecd that created the sandbox or container. A podexecd never touches
	// those without its own agent ID.
	AgentAnnotation = "podstream.io/agent"
)

// Labels returns the labels that mark a sandbox or a container as the pod's.
func Labels(pod *v1.Pod) map[string]string {
	return map[string]string{
		PodNameLabel:      pod.Name,
		PodNamespaceLabel: pod.Namespace,
		PodUIDLabel:       string(pod.UID),
	}
}

// SetByAgents reports whether the annotation is set by podconfigd, podexecd or the kubelet, and not by the pod's
// author. Such annotations differ from pod to pod.
func SetByAgents(annotation string) bool {
	return strings.HasPrefix(annotation, "kubernetes.io/config.") || strings.HasPrefix(annotation, "podstream.io/")
}
