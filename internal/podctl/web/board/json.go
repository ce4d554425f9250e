package board

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
)

// unmarshalJSON decodes a pod.
func unmarshalJSON(text []byte, pod *corev1.Pod) error {
	return json.UnmarshalCaseSensitivePreserveInts(text, pod)
}
