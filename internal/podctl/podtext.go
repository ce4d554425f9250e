package podctl

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// shortened is enough of a UID to tell incarnations apart, or all of it.
func shortened(uid string, all bool) string {
	const enough = 8
	if runes := []rune(uid); !all && len(runes) > enough+1 {
		return string(runes[:enough]) + "…"
	}
	return uid
}

// containersText lists the first few containers of a pod as name=image, or all.
func containersText(pod *podconfigv1.Pod, all bool) string {
	const some = 3
	images := imagesOf(pod)
	if !all && len(images) > some {
		images = append(images[:some:some], "…")
	}
	return strings.Join(images, ",")
}

// imagesOf is nil if the pod came without content. Where the content can't be read it says so: the line is worth printing still.
func imagesOf(pod *podconfigv1.Pod) []string {
	var content corev1.Pod
	switch c := pod.GetContent().(type) {
	case *podconfigv1.Pod_Protobuf:
		if content.Unmarshal(c.Protobuf) != nil {
			return []string{"(undecodable)"}
		}
	case *podconfigv1.Pod_Json:
		text, err := c.Json.MarshalJSON()
		if err != nil || json.Unmarshal(text, &content) != nil {
			return []string{"(undecodable)"}
		}
	}
	var images []string
	for _, container := range content.Spec.Containers {
		images = append(images, container.Name+"="+container.Image)
	}
	return images
}
