package oci

import (
	"errors"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// scheme is the scheme of locations. A configured reference may have it.
const scheme = "oci://"

// ParseReference parses REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@DIGEST, perhaps with the scheme. Nothing is assumed:
// neither docker.io nor the tag latest. insecure allows HTTP.
func ParseReference(text string, insecure bool) (name.Reference, error) {
	options := []name.Option{name.StrictValidation}
	if insecure {
		options = append(options, name.Insecure)
	}
	// The parser's own errors are for images.
	wrong := errors.New("want REGISTRY/REPOSITORY:TAG, or @sha256:DIGEST in place of the tag")
	text = strings.TrimPrefix(text, scheme)
	if strings.ContainsAny(text, " \t\n") || strings.Contains(text, "://") {
		return nil, wrong
	}
	ref, err := name.ParseReference(text, options...)
	if err != nil {
		return nil, wrong
	}
	if digest, ok := ref.(name.Digest); ok && !strings.HasPrefix(digest.DigestStr(), "sha256:") {
		return nil, wrong
	}
	return ref, nil
}

// Location returns a reference as all callers see it.
func Location(ref name.Reference) string { return scheme + ref.Name() }

// tagOf returns the tag of a reference; empty: it has none.
func tagOf(ref name.Reference) string {
	if tag, ok := ref.(name.Tag); ok {
		return tag.TagStr()
	}
	return ""
}
