package ocitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	// SimpleType is the media type of cosign's payloads.
	SimpleType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// BundleType is that of Sigstore's bundles.
	BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// Signer is a key.
type Signer struct {
	t   testing.TB
	key *ecdsa.PrivateKey
	// PEM is the public key.
	PEM []byte
}

// NewSigner returns a new key.
func NewSigner(t testing.TB) *Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return &Signer{t, key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
}

// T returns the test.
func (s *Signer) T() testing.TB { return s.t }

func (s *Signer) sign(message []byte) []byte {
	s.t.Helper()
	sum := sha256.Sum256(message)
	signature, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	return signature
}

// Simple returns a payload of simple signing for a repository, and its signature.
func (s *Signer) Simple(digest, reference string) (payload []byte, signature string) {
	payload = fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":%q},"optional":null}`,
		reference, digest, "cosign container image signature")
	return payload, base64.StdEncoding.EncodeToString(s.sign(payload))
}

// Bundle returns a bundle with an envelope, for a repository; empty: for none.
func (s *Signer) Bundle(digest, reference string) []byte {
	subject := map[string]any{"digest": map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}}
	if reference != "" {
		subject["annotations"] = map[string]string{"docker-reference": reference}
	}
	statement := s.encode(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://sigstore.dev/cosign/sign/v1", "subject": []any{subject}, "predicate": map[string]any{},
	})
	const payloadType = "application/vnd.in-toto+json"
	signature := s.sign(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement))
	return s.encode(map[string]any{
		"mediaType": BundleType, "verificationMaterial": map[string]any{"publicKey": map[string]string{"hint": "x"}},
		"dsseEnvelope": map[string]any{"payload": statement, "payloadType": payloadType, "signatures": []any{map[string]any{"sig": signature}}},
	})
}

func (s *Signer) encode(v any) []byte {
	s.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// SignatureTag returns the tag of the signatures of a digest.
func SignatureTag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// PutSimple adds a payload and its signature to those of a digest.
func (h *Hub) PutSimple(repository, digest string, payload []byte, signature string) {
	h.t.Helper()
	m := Manifest{MediaType: ManifestType, Config: h.emptyConfig(repository)}
	if old := h.find(repository, SignatureTag(digest)); old != nil {
		if err := json.Unmarshal(old, &m); err != nil {
			h.t.Fatal(err)
		}
	}
	m.Layers = append(m.Layers, Descriptor{
		MediaType: SimpleType, Digest: h.PutBlob(repository, payload), Size: int64(len(payload)),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": signature},
	})
	h.PutManifest(repository, SignatureTag(digest), ManifestType, m.Encode(h.t))
}

// PutBundle adds a bundle to those that refer to a digest, by the index of the tag too, as cosign does it for a registry
// without the API.
func (h *Hub) PutBundle(repository, digest string, bundle []byte) {
	h.t.Helper()
	subject := h.Manifest(repository, digest)
	m := Manifest{
		MediaType: ManifestType, ArtifactType: BundleType, Config: h.emptyConfig(repository),
		Layers:  []Descriptor{{MediaType: BundleType, Digest: h.PutBlob(repository, bundle), Size: int64(len(bundle))}},
		Subject: &Descriptor{MediaType: ManifestType, Digest: digest, Size: int64(len(subject))},
	}.Encode(h.t)
	h.PutManifest(repository, Digest(m), ManifestType, m)
	index, tag := Manifest{MediaType: IndexType}, strings.Replace(digest, ":", "-", 1)
	if old := h.find(repository, tag); old != nil {
		if err := json.Unmarshal(old, &index); err != nil {
			h.t.Fatal(err)
		}
	}
	index.Manifests = append(index.Manifests, Descriptor{
		MediaType: ManifestType, Digest: Digest(m), Size: int64(len(m)), ArtifactType: BundleType,
	})
	h.PutManifest(repository, tag, IndexType, index.Encode(h.t))
}

// find returns the manifest of a tag, or nil.
func (h *Hub) find(repository, tag string) []byte {
	w := httptest.NewRecorder()
	h.content.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://"+h.Addr+"/v2/"+repository+"/manifests/"+tag, http.NoBody))
	if w.Code != http.StatusOK {
		return nil
	}
	return w.Body.Bytes()
}

// SignSimple signs a digest for the repository at the registry's own address.
func (h *Hub) SignSimple(s *Signer, repository, digest string) {
	h.t.Helper()
	payload, signature := s.Simple(digest, h.Addr+"/"+repository)
	h.PutSimple(repository, digest, payload, signature)
}

// SignBundle is SignSimple with a bundle.
func (h *Hub) SignBundle(s *Signer, repository, digest string) {
	h.t.Helper()
	h.PutBundle(repository, digest, s.Bundle(digest, h.Addr+"/"+repository))
}
