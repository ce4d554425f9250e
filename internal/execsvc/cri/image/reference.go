package image

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// reference is a container's parsed image.
type reference struct {
	// given is the pod's text; name is that with a tag, if it has neither tag nor digest.
	given, name string
	// repository is the name with its registry, without tag and digest: "docker.io/library/busybox".
	repository string
	// full is the repository with the tag or the digest, as runtimes name images.
	full string
	// isID is set if the image is given by its ID in the runtime, "sha256:" and hex digits: repository is "sha256", which
	// is no repository.
	isID bool
}

const (
	component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	hostLabel = `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
)

// The grammar of image references (github.com/distribution/reference). A colon in the last component starts a tag.
var (
	registryPattern = regexp.MustCompile(`^(?:` + hostLabel + `(?:\.` + hostLabel + `)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?$`)
	pathPattern     = regexp.MustCompile(`^(` + component + `(?:/` + component + `)*)(:[\w][\w.-]{0,127})?` +
		`(@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$`)
	idPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// prefixedID matches an ID, or the beginning of one, with its algorithm. By the grammar it is a tag of the repository
	// docker.io/library/sha256; runtimes find the image of that ID by it, whatever its repository is.
	prefixedID = regexp.MustCompile(`^(sha(?:256|384|512)):[0-9a-f]+$`)
)

// maxRepository is the longest repository that registries accept, in bytes. maxReference is longer than any reference
// with a tag and a digest.
const (
	maxRepository = 255
	maxReference  = 1 << 10
)

// ErrReference is the error of an invalid name of an image.
var ErrReference = errors.New("invalid reference format")

func parseReference(image string) (reference, error) {
	if len(image) > maxReference {
		return reference{}, fmt.Errorf("couldn't parse image name %q: %w: it has more than %d bytes", clip(image, maxReference), ErrReference, maxReference)
	}
	if idPattern.MatchString(image) {
		return reference{}, fmt.Errorf("couldn't parse image name %q: %w: it is an ID, and registries have no images by ID", image, ErrReference)
	}
	if id := prefixedID.FindStringSubmatch(image); id != nil {
		return reference{given: image, name: image, repository: id[1], full: image, isID: true}, nil
	}
	registry, path := splitRegistry(image)
	if name := repositoryName(registry, path); strings.ToLower(name) != name {
		return reference{}, fmt.Errorf("couldn't parse image name %q: %w: repository name (%s) must be lowercase", image, ErrReference, name)
	}
	parts := pathPattern.FindStringSubmatch(path)
	if parts == nil || !registryPattern.MatchString(registry) || len(registry)+1+len(parts[1]) > maxRepository {
		return reference{}, fmt.Errorf("couldn't parse image name %q: %w", image, ErrReference)
	}
	ref := reference{given: image, name: image, repository: registry + "/" + repositoryName(registry, parts[1])}
	if parts[2] == "" && parts[3] == "" {
		ref.name += ":latest"
		parts[2] = ":latest"
	}
	ref.full = ref.repository + cmp.Or(parts[3], parts[2])
	return ref, nil
}

// Canonical returns the repository of an image's name with its registry, "docker.io/library/busybox", and the same with
// the tag or the digest. Of a name with both, the digest counts. Of an ID, "sha256:" and hex digits, it returns "sha256" and
// the ID.
func Canonical(name string) (repository, full string, err error) {
	ref, err := parseReference(name)
	return ref.repository, ref.full, err
}

// repositoryName returns the repository's name in its registry. The path may have a tag.
func repositoryName(registry, path string) string {
	name, _, _ := strings.Cut(path, ":")
	if registry == dockerHub && !strings.Contains(name, "/") {
		return "library/" + name
	}
	return name
}

// dockerHub is the registry of images without one.
const dockerHub = "docker.io"

// splitRegistry treats the text before the first slash as a registry if it can't be a part of a path.
func splitRegistry(image string) (registry, path string) {
	first, rest, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(first, ".:") && first != "localhost" && strings.ToLower(first) == first {
		return dockerHub, image
	}
	if first == "index.docker.io" {
		first = dockerHub
	}
	return first, rest
}
