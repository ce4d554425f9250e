package signature

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/podstream/podstream/internal/sources/fault"
)

const (
	// MaxPayload is the maximum size of a payload of simple signing, in bytes.
	MaxPayload = 64 << 10
	// MaxBundle is the maximum size of a bundle, in bytes.
	MaxBundle = 256 << 10
	// MaxSignature is the maximum length of a signature in base64: an RSA key of 8192 bits makes 1024 bytes.
	MaxSignature = 4 << 10
	// maxSubjects is the maximum number of subjects of a statement.
	maxSubjects = 64
)

// Reasons why a signature doesn't count.
const (
	errBroken     fault.Error = "a signature can't be read"
	errOtherKey   fault.Error = "a signature isn't by the key"
	errOther      fault.Error = "a signature is of another artifact"
	errPurpose    fault.Error = "a statement that the key has signed isn't cosign's about a signature"
	errUnnamed    fault.Error = "a signature by the key doesn't name a repository: sign with -a docker-reference=REPOSITORY, or allow any repository"
	errRepository fault.Error = "a signature by the key is for another repository"
)

// Evidence is one signature as a registry has it. Either Payload and Signature are set, or Bundle is.
type Evidence struct {
	// Payload is of simple signing, and Signature is its signature in base64.
	Payload   []byte `json:"payload,omitempty"`
	Signature string `json:"signature,omitempty"`
	// Bundle is a bundle of Sigstore in JSON.
	Bundle []byte `json:"bundle,omitempty"`
}

// Artifact is what has to be signed.
type Artifact struct {
	// Digest is "sha256:" and hex digits, and Manifest are the bytes that have it.
	Digest   string
	Manifest []byte
	// Repository is the configured one, and Tag its tag; empty if the reference has none.
	Repository name.Repository
	Tag        string
	// AnyRepository accepts signatures for other repositories, or without one.
	AnyRepository bool
}

// Verify returns nil if one of the keys has signed the artifact. The error is a fault.Error: why the signature doesn't
// count.
func (k *Keys) Verify(e Evidence, a Artifact) error {
	if len(e.Bundle) > 0 {
		return k.verifyBundle(e.Bundle, a)
	}
	return k.verifySimple(e, a)
}

// simpleSigning is a payload of simple signing, as far as it is read.
type simpleSigning struct {
	Critical struct {
		Identity struct {
			DockerReference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			DockerManifestDigest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
}

// simpleType is the type of cosign's payloads.
const simpleType = "cosign container image signature"

func (k *Keys) verifySimple(e Evidence, a Artifact) error {
	if len(e.Payload) > MaxPayload || len(e.Signature) > MaxSignature {
		return errBroken
	}
	signature, err := base64.StdEncoding.DecodeString(e.Signature)
	if err != nil {
		return errBroken
	}
	// Nothing of a payload is looked at before it is known that the key has signed it.
	if !k.signed(e.Payload, signature) {
		return errOtherKey
	}
	var payload simpleSigning
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return errBroken
	}
	switch {
	case payload.Critical.Type != simpleType:
		return errPurpose
	case payload.Critical.Image.DockerManifestDigest != a.Digest:
		return errOther
	}
	return a.isNamed(payload.Critical.Identity.DockerReference)
}

// isNamed returns nil if a reference that the key has signed is the artifact's: REPOSITORY, perhaps with the tag or the
// digest.
func (a Artifact) isNamed(reference string) error {
	if a.AnyRepository {
		return nil
	}
	if reference == "" {
		return errUnnamed
	}
	if repository, err := name.NewRepository(reference); err == nil {
		return a.isRepository(repository)
	}
	if digest, err := name.NewDigest(reference); err == nil && digest.DigestStr() == a.Digest {
		return a.isRepository(digest.Repository)
	}
	if tag, err := name.NewTag(reference); err == nil && (a.Tag == "" || tag.TagStr() == a.Tag) {
		return a.isRepository(tag.Repository)
	}
	return errRepository
}

func (a Artifact) isRepository(other name.Repository) error {
	if other.Name() != a.Repository.Name() {
		return errRepository
	}
	return nil
}

// has reports whether a set of digests, by their algorithms, has the artifact's.
func (a Artifact) has(digests map[string]string) bool { return "sha256:"+digests["sha256"] == a.Digest }

// subject returns the one of some subjects that is the artifact; false: none is.
func (a Artifact) subject(subjects []subject) (subject, bool) {
	if len(subjects) > maxSubjects {
		return subject{}, false
	}
	i := slices.IndexFunc(subjects, func(s subject) bool { return a.has(s.Digest) })
	if i < 0 {
		return subject{}, false
	}
	return subjects[i], true
}
