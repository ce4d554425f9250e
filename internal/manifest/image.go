package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// pullPolicy is the policy for an image whose author named none: what can't change under its name need not be asked for again.
func pullPolicy(image string) v1.PullPolicy {
	tag, digest := imageVersion(image)
	if digest == "" && (tag == "" || tag == "latest") {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// imageVersion is the tag and the digest of an image's reference; each may be empty. A colon before the last slash is that of
// the registry's port.
func imageVersion(image string) (tag, digest string) {
	name, digest, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	}
	return tag, digest
}
