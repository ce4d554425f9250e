package imagepolicy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// The values of imagePullCredentialsVerificationPolicy.
const (
	NeverVerify                  = kubeletconfigv1beta1.NeverVerify
	NeverVerifyPreloadedImages   = kubeletconfigv1beta1.NeverVerifyPreloadedImages
	NeverVerifyAllowlistedImages = kubeletconfigv1beta1.NeverVerifyAllowlistedImages
	AlwaysVerify                 = kubeletconfigv1beta1.AlwaysVerify
)

// Policy determines which images a pod may use without credentials. The zero value is NeverVerifyPreloadedImages.
type Policy struct {
	name kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy
	// exact and prefixes are the allowlist: repositories, and prefixes that end with a slash.
	exact    map[string]bool
	prefixes []string
}

// Policy errors.
var (
	ErrPolicy    = errors.New("unknown policy")
	ErrAllowlist = errors.New("the allowlist is for the policy NeverVerifyAllowlistedImages")
	ErrPattern   = errors.New("invalid pattern")
)

// New returns the policy of that name; empty: the default. The errors are those above.
func New(name kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy, allowlist []string) (Policy, error) {
	p := Policy{name: name, exact: map[string]bool{}}
	switch name {
	case "", NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify:
	default:
		return Policy{}, fmt.Errorf("%w: %q", ErrPolicy, name)
	}
	if len(allowlist) > 0 && name != NeverVerifyAllowlistedImages {
		return Policy{}, ErrAllowlist
	}
	for _, pattern := range allowlist {
		prefix, wild := strings.CutSuffix(pattern, "*")
		switch {
		case wild && len(prefix) > 1 && strings.HasSuffix(prefix, "/") && !strings.ContainsAny(prefix, "* \t"):
			p.prefixes = append(p.prefixes, prefix)
		case !wild && repository.MatchString(pattern) && !strings.HasPrefix(pattern, "index.docker.io/") && !shortHub.MatchString(pattern):
			p.exact[pattern] = true
		default:
			return Policy{}, fmt.Errorf("%w: %q; want a repository with its registry and without tag or digest, like docker.io/library/nginx, "+
				"or a part of that which ends with /*", ErrPattern, pattern)
		}
	}
	return p, nil
}

// repository matches the full name of a repository. The first part is a registry: it has a dot or a port, or is
// localhost.
var repository = regexp.MustCompile(`^(?:localhost|[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+|(?:[a-zA-Z0-9.-]+|\[[0-9a-fA-F:]+\]):[0-9]+|localhost:[0-9]+)` +
	`(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)+$`)

// shortHub matches a repository of Docker Hub without the part that is implied there: docker.io/nginx.
var shortHub = regexp.MustCompile(`^docker\.io/[^/]+$`)

// Verifies reports whether a pod needs credentials for an image of the repository. pulled is set if the image was
// pulled for a pod, and not loaded by others.
func (p Policy) Verifies(repository string, pulled bool) bool {
	switch p.name {
	case NeverVerify:
		return false
	case AlwaysVerify:
		return true
	case NeverVerifyAllowlistedImages:
		return !p.lists(repository)
	default:
		return pulled
	}
}

func (p Policy) lists(repository string) bool {
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(repository, prefix) {
			return true
		}
	}
	return p.exact[repository]
}
