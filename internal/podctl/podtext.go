package podctl

import (
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// shortened returns the start of a UID, long enough to distinguish incarnations, or all of it.
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

// imagesOf returns nil if the pod has no content. For content that can't be decoded it returns a placeholder, so that
// the line is printed.
func imagesOf(pod *podconfigv1.Pod) []string {
	content, err := contentOf(pod)
	switch {
	case err != nil:
		return []string{"(undecodable)"}
	case content == nil:
		return nil
	}
	var images []string
	for _, container := range content.Spec.Containers {
		images = append(images, container.Name+"="+container.Image)
	}
	return images
}
