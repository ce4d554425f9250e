package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// digested is the input of the spec digest.
type digested struct {
	Annotations                map[string]string `json:"annotations,omitempty"`
	DeletionGracePeriodSeconds *int64            `json:"deletionGracePeriodSeconds,omitempty"`
	DeletionTimestamp          *metav1.Time      `json:"deletionTimestamp,omitempty"`
	Labels                     map[string]string `json:"labels,omitempty"`
	Spec                       *v1.PodSpec       `json:"spec,omitempty"`
}

// SpecDigest returns podconfig.v1.Pod.spec_digest of a defaulted pod, from any source.
func SpecDigest(pod *v1.Pod) (string, error) {
	text, err := canonical(&digested{
		Annotations:                lasting(pod.Annotations),
		DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		DeletionTimestamp:          pod.DeletionTimestamp,
		Labels:                     pod.Labels,
		Spec:                       &pod.Spec,
	}, true)
	if err != nil {
		return "", fmt.Errorf("digest the spec of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return sum(text), nil
}

// StatusDigest returns podconfig.v1.Pod.status_digest of a pod from any source.
func StatusDigest(pod *v1.Pod) (string, error) {
	text, err := canonical(&pod.Status, false)
	if err != nil {
		return "", fmt.Errorf("digest the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return sum(text), nil
}

// lasting returns the annotations without those that differ between readings, sources or node agents.
func lasting(annotations map[string]string) map[string]string {
	left := make(map[string]string, len(annotations))
	for k, v := range annotations {
		switch k {
		case SourceAnnotation, SeenAnnotation, MirrorAnnotation, RelayPathAnnotation:
		default:
			left[k] = v
		}
	}
	return left
}

// canonical returns the canonical JSON of a Kubernetes type. See canonicalize.
func canonical(value any, compact bool) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return canonicalize(b.Bytes(), compact)
}

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(hash[:])
}
