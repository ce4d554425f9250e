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

// Facts are the values that aren't in the pod object.
type Facts struct {
	// Node is the node's name, for a pod without one.
	Node string
	// PodIPs are the pod's IPs, the primary one first; with hostNetwork those of the node. Empty while they aren't
	// known.
	PodIPs []string
	// HostIPs are the node's IPs, the primary one first.
	HostIPs []string
	// Allocatable has the node's allocatable resources: the limits of a container without limits.
	Allocatable v1.ResourceList
}

// Field returns the value of one of the pod's fields: metadata.name, metadata.namespace, metadata.uid; metadata.labels
// and metadata.annotations, with a line key="value" for each, and single ones, metadata.labels['key'], empty if
// missing; spec.nodeName, spec.serviceAccountName; status.podIP and status.podIPs, empty while they aren't known;
// status.hostIP and status.hostIPs, an error while they aren't known. IPs are joined by commas.
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
	case "spec.nodeName", "spec.host": // spec.host is the name before v1
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

// subscripted splits path['key']. The key may contain quotes and brackets too: it is the text from the first [' to the
// last '].
func subscripted(fieldPath string) (path, key string, ok bool) {
	text, ok := strings.CutSuffix(fieldPath, "']")
	if !ok {
		return "", "", false
	}
	path, key, ok = strings.Cut(text, "['")
	return path, key, ok && path != ""
}

// entry returns one label or annotation.
func entry(pod *v1.Pod, fieldPath, path, key string) (string, error) {
	// An annotation's key may have capitals in its prefix; a label's may not.
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

// lines formats a map, sorted by key. Values are quoted as in Go, so that each stays on its line.
func lines(m map[string]string) string {
	list := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(list, "\n")
}

// primary returns the list's first element, if it has one.
func primary(ips []string) []string { return ips[:min(1, len(ips))] }

// known joins the node's IPs. A container that starts without them never gets them, so its start must wait.
func known(ips []string) (string, error) {
	if len(ips) == 0 {
		return "", errors.New("the node's address isn't known")
	}
	return strings.Join(ips, ","), nil
}
