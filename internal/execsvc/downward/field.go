package downward

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Facts are what a pod's own text doesn't say.
type Facts struct {
	// Node is the node's name, for a pod that doesn't bear one.
	Node string
	// PodIPs are the pod's addresses, those of the node for a pod in the node's network; the primary one first. Empty while they
	// aren't known.
	PodIPs []string
	// HostIPs are the node's addresses, the primary one first.
	HostIPs []string
	// Allocatable is what the node has for pods: the limits of a container without limits.
	Allocatable v1.ResourceList
}

// Field returns the value of one of the pod's fields: metadata.name, metadata.namespace, metadata.uid; metadata.labels and
// metadata.annotations, a line key="value" each, and one of them, metadata.labels['key'], which is empty if the pod hasn't got it;
// spec.nodeName, spec.serviceAccountName; status.podIP and status.podIPs, empty while they aren't known; status.hostIP and
// status.hostIPs, an error while they aren't known. Addresses are joined by commas.
func Field(pod *v1.Pod, fieldPath string, f Facts) (string, error) {
	if path, key, ok := subscripted(fieldPath); ok {
		return entry(pod, fieldPath, path, key)
	}
	switch fieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName", "spec.host": // the second is what it was called before v1
		return cmp.Or(pod.Spec.NodeName, f.Node), nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return strings.Join(primary(f.PodIPs), ","), nil
	case "status.podIPs":
		return strings.Join(f.PodIPs, ","), nil
	case "status.hostIP":
		return known(primary(f.HostIPs))
	case "status.hostIPs":
		return known(f.HostIPs)
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", fieldPath)
}

// subscripted takes path['key'] apart. The key may hold anything, quotes and brackets too: it goes from the first [' to the last '].
func subscripted(fieldPath string) (path, key string, ok bool) {
	text, ok := strings.CutSuffix(fieldPath, "']")
	if !ok {
		return "", "", false
	}
	path, key, ok = strings.Cut(text, "['")
	return path, key, ok && path != ""
}

// entry is one label or annotation.
func entry(pod *v1.Pod, fieldPath, path, key string) (string, error) {
	// An annotation's key may have capitals in its prefix, a label's may not.
	values, name := pod.Annotations, strings.ToLower(key)
	switch path {
	case "metadata.annotations":
	case "metadata.labels":
		values, name = pod.Labels, key
	default:
		return "", fmt.Errorf("fieldPath %q does not support subscript", fieldPath)
	}
	if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
		return "", fmt.Errorf("invalid key subscript in %s: %s", fieldPath, strings.Join(wrong, ";"))
	}
	return values[key], nil
}

// lines shows a map in the order of its keys. Values are quoted as Go does it, so that each stays on its line.
func lines(m map[string]string) string {
	list := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(list, "\n")
}

// primary is the list's first element, if it has one.
func primary(ips []string) []string { return ips[:min(1, len(ips))] }

// known joins the node's addresses. A process that was told of none would never learn them, so its start has to wait.
func known(ips []string) (string, error) {
	if len(ips) == 0 {
		return "", errors.New("the node's address isn't known")
	}
	return strings.Join(ips, ","), nil
}
