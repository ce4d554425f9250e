package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/oci/registry"
	"github.com/podstream/podstream/internal/sources/oci/signature"
)

const (
	// maxSignatures is how many signatures of each format are looked at, in the registry's order.
	maxSignatures = 32
	// maxReferrers is how many referrers are looked through for signatures.
	maxReferrers = 1000

	emptyType           = "application/vnd.oci.empty.v1+json"
	simpleType          = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

const errUnsigned fault.Error = "it isn't signed"

// findEvidence returns the first signature of the artifact at the registry that verifies. Its error is why none does.
func findEvidence(r *registry.Reading, keys *signature.Keys, of signature.Artifact) (*signature.Evidence, error) {
	why := map[string]int{}
	for _, find := range []func(*registry.Reading, string, func(signature.Evidence) bool) error{simpleSignatures, bundles} {
		var good *signature.Evidence
		err := find(r, of.Digest, func(e signature.Evidence) bool {
			err := keys.Verify(e, of)
			if err == nil {
				good = &e
				return true
			}
			why[err.Error()]++
			return false
		})
		if good != nil {
			return good, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read its signatures: %w", err)
		}
	}
	if len(why) == 0 {
		return nil, errUnsigned
	}
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		reasons = append(reasons, fmt.Sprintf("%s (%d)", reason, why[reason]))
	}
	return nil, fault.Newf("no signature of it counts: %s", strings.Join(reasons, "; "))
}

// simpleSignatures calls use with the signatures of the tag that stands for them, until it returns true.
func simpleSignatures(r *registry.Reading, digest string, use func(signature.Evidence) bool) error {
	data, err := r.Tagged(strings.Replace(digest, ":", "-", 1) + ".sig")
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var d document
	if json.Unmarshal(data, &d) != nil {
		return nil //nolint:nilerr // Nothing in it is a signature.
	}
	for _, l := range d.Layers[:min(len(d.Layers), maxSignatures)] {
		if l.MediaType != simpleType || l.Size < 0 || l.Size > signature.MaxPayload {
			continue
		}
		payload, err := r.Blob(l.Digest, l.Size)
		if err != nil {
			return err
		}
		if use(signature.Evidence{Payload: payload, Signature: l.Annotations[signatureAnnotation]}) {
			return nil
		}
	}
	return nil
}

// bundles calls use with the bundles that refer to the digest, until it returns true.
func bundles(r *registry.Reading, digest string, use func(signature.Evidence) bool) error {
	list, err := r.Referrers(digest)
	if err != nil {
		return err
	}
	seen := 0
	for _, referrer := range list[:min(len(list), maxReferrers)] {
		// Some registries report the type of the configuration, or none.
		if !slices.Contains([]string{signature.BundleType, emptyType, ""}, referrer.ArtifactType) {
			continue
		}
		if seen++; seen > maxSignatures {
			return nil
		}
		data, err := r.Manifest(referrer.Digest.String())
		if err != nil {
			return err
		}
		var d document
		if json.Unmarshal(data, &d) != nil || len(d.Layers) != 1 || d.Layers[0].MediaType != signature.BundleType ||
			d.Layers[0].Size < 0 || d.Layers[0].Size > signature.MaxBundle {
			continue
		}
		bundle, err := r.Blob(d.Layers[0].Digest, d.Layers[0].Size)
		if err != nil {
			return err
		}
		if use(signature.Evidence{Bundle: bundle}) {
			return nil
		}
	}
	return nil
}
