package resize

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// Message returns the message of an event, as in the kubelet: what happened, and the resources as JSON, the pod-level
// ones too. trouble may be empty.
func Message(what string, pod *v1.Pod, generation int64, trouble string) string {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources,omitempty"`
	}
	summary := struct {
		Resources      *v1.ResourceRequirements `json:"resources,omitempty"`
		InitContainers []container              `json:"initContainers,omitempty"`
		Containers     []container              `json:"containers,omitempty"`
		Generation     int64                    `json:"generation"`
		Error          string                   `json:"error,omitempty"`
	}{Resources: pod.Spec.Resources, Generation: generation, Error: trouble}
	for i, c := range containers(pod) {
		list := &summary.Containers
		if i < len(pod.Spec.InitContainers) {
			list = &summary.InitContainers
		}
		*list = append(*list, container{c.Name, c.Resources})
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}
