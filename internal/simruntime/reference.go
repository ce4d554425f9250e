package simruntime

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// referencePattern matches an image reference without its domain, with its digest.
var referencePattern = regexp.MustCompile(`^([a-z0-9]+(?:(?:\.|_|__|-+|/)[a-z0-9]+)*)(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// domainOf splits a reference or prefix as Docker does: the part before the first slash is a domain if it has the form
// of one.
func domainOf(ref string) (domain, rest string) {
	first, rest, ok := strings.Cut(ref, "/")
	if ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first, rest
	}
	return "docker.io", ref
}

// normalize returns a reference in containerd's form: with the domain, and with the digest or, without a digest, a
// tag.
func normalize(ref string) (string, error) {
	domain, rest := domainOf(ref)
	parts := referencePattern.FindStringSubmatch(rest)
	if parts == nil {
		return "", fmt.Errorf("failed to parse image reference %q: invalid reference format", ref)
	}
	repo, tag, digest := parts[1], parts[2], parts[3]
	if domain == "docker.io" && !strings.Contains(repo, "/") {
		repo = "library/" + repo
	}
	switch {
	case digest != "":
		tag = ""
	case tag == "":
		tag = ":latest"
	}
	return domain + "/" + repo + tag + digest, nil
}

// repository returns a normalized reference without its tag or digest.
func repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		ref = ref[:i]
	}
	return ref
}

// refSet is a set of image references: names, and prefixes that end in "/". A name without a tag includes all its
// tags.
type refSet []string

func newRefSet(patterns []string) refSet {
	var set refSet
	for _, pattern := range patterns {
		domain, rest := domainOf(pattern)
		if domain == "docker.io" && !strings.Contains(rest, "/") {
			rest = "library/" + rest
		}
		set = append(set, domain+"/"+rest)
	}
	return set
}

// has reports whether the set contains a normalized reference.
func (r refSet) has(ref string) bool {
	return slices.ContainsFunc(r, func(pattern string) bool {
		if strings.HasSuffix(pattern, "/") {
			return strings.HasPrefix(ref, pattern)
		}
		return ref == pattern || repository(ref) == pattern
	})
}

// The repositories whose names determine their behaviour.
const (
	missingImages = "docker.io/missing/"
	slowImages    = "docker.io/slow/"
	// slowPull is the duration of a slow image's pull if its tag isn't a duration.
	slowPull = 5 * time.Second
)

// registry is the registry that images are pulled from.
type registry struct{ images refSet }

func newRegistry(images []string) registry { return registry{newRefSet(images)} }

// lookUp reports whether the registry has a normalized reference, and the duration of its pull.
func (r registry) lookUp(ref string) (took time.Duration, ok bool) {
	switch {
	case strings.HasPrefix(ref, missingImages):
		return 0, false
	case strings.HasPrefix(ref, slowImages):
		if took, err := time.ParseDuration(strings.TrimPrefix(ref, repository(ref)+":")); err == nil {
			return took, true
		}
		return slowPull, true
	}
	return 0, r.images.has(ref)
}
