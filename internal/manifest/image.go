package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// pullPolicy returns the default policy for an image: one that can't change under its name needn't be pulled again.
func pullPolicy(image string) v1.PullPolicy {
	tag, digest := imageVersion(image)
	if digest == "" && (tag == "" || tag == "latest") {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// imageVersion returns the tag and the digest of an image's reference; each may be empty. A colon before the last
// slash is that of the registry's port.
func imageVersion(image string) (tag, digest string) {
	name, digest, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	}
	return tag, digest
}
