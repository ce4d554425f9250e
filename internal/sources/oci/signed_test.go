package oci

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// trusted is a registry, a key, and a node that trusts it.
type trusted struct {
	*node
	hub    *ocitest.Hub
	signer *ocitest.Signer
	first  string
}

// newTrusted starts a node whose source has accepted the signed version v1 of two pods.
func newTrusted(t *testing.T, cfg Config) *trusted {
	t.Helper()
	hub, signer := ocitest.New(t, ocitest.Config{}), ocitest.NewSigner(t)
	first := hub.Push("pods", "prod", at(10), pods("web", "v1", "db", "v1"))
	hub.SignSimple(signer, "pods", first)
	cfg.Reference, cfg.PublicKeyFile = hub.Addr+"/pods:prod", write(t, t.TempDir(), "cosign.pub", signer.PEM)
	n := &trusted{newNode(t, cfg), hub, signer, first}
	n.expect("db.yaml=v1", "web.yaml=v1")
	return n
}

// stays checks that the pods of v1 are served, also after a restart, from the stored artifact and with the registry still
// refused.
func (n *trusted) stays(what string, want ...string) {
	n.t.Helper()
	n.refuses(want...)
	if n.serves() != 2 {
		n.t.Errorf("%s: %d pods are served", what, n.serves())
	}
	n.restart()
	n.refuses(want...)
	if n.restored == nil || strings.Join(show(*n.restored), " ") != "db.yaml=v1 web.yaml=v1" {
		n.t.Errorf("%s: after a restart, the stored artifact has %v", what, n.restored)
	}
	if n.serves() != 2 {
		n.t.Errorf("%s: after a restart, %d pods are served", what, n.serves())
	}
}

// TestSigned: an artifact that the key has signed is accepted, in each format and place.
func TestSigned(t *testing.T) {
	for name, tc := range map[string]struct {
		referrers bool
		sign      func(h *ocitest.Hub, s *ocitest.Signer, digest string)
	}{
		"simple signing":           {false, func(h *ocitest.Hub, s *ocitest.Signer, digest string) { h.SignSimple(s, "pods", digest) }},
		"bundle, by a tag":         {false, func(h *ocitest.Hub, s *ocitest.Signer, digest string) { h.SignBundle(s, "pods", digest) }},
		"bundle, by the referrers": {true, func(h *ocitest.Hub, s *ocitest.Signer, digest string) { h.SignBundle(s, "pods", digest) }},
		"the second of two": {false, func(h *ocitest.Hub, s *ocitest.Signer, digest string) {
			h.SignSimple(ocitest.NewSigner(s.T()), "pods", digest)
			h.SignSimple(s, "pods", digest)
		}},
		"the second of two bundles": {true, func(h *ocitest.Hub, s *ocitest.Signer, digest string) {
			h.SignBundle(ocitest.NewSigner(s.T()), "pods", digest)
			h.SignBundle(s, "pods", digest)
		}},
		"a bundle beside another key's signature": {false, func(h *ocitest.Hub, s *ocitest.Signer, digest string) {
			h.SignSimple(ocitest.NewSigner(s.T()), "pods", digest)
			h.SignBundle(s, "pods", digest)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			hub, signer := ocitest.New(t, ocitest.Config{Referrers: tc.referrers}), ocitest.NewSigner(t)
			digest := hub.Push("pods", "prod", at(1), pods("web", "v1"))
			n := newNode(t, Config{Reference: hub.Addr + "/pods:prod", PublicKeyFile: write(t, t.TempDir(), "cosign.pub", signer.PEM)})
			n.refuses(digest, "it isn't signed")
			if n.ready() || n.serves() != 0 {
				t.Errorf("an unsigned artifact is used: %d pods", n.serves())
			}
			tc.sign(hub, signer, digest)
			n.expect("web.yaml=v1")
			hub.Requests()
			n.expect("web.yaml=v1")
			if got := ocitest.Paths(hub.Requests()); got != "HEAD /v2/pods/manifests/prod" {
				t.Errorf("the requests of an unchanged artifact are %q", got)
			}
			n.restart()
			n.expect("web.yaml=v1")
			if n.restored == nil {
				t.Error("the stored artifact wasn't used")
			}
		})
	}
}

// TestRefusedSignatures: whatever is wrong with the signature of the next artifact, the pods stay as they are, also over a
// restart. Once it is signed, it is used.
func TestRefusedSignatures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sign func(n *trusted, digest string)
		want string
	}{
		"unsigned": {func(*trusted, string) {}, "it isn't signed"},
		"another key": {func(n *trusted, digest string) { n.hub.SignSimple(ocitest.NewSigner(n.t), "pods", digest) },
			"no signature of it counts: a signature isn't by the key (1)"},
		"another key's bundle": {func(n *trusted, digest string) { n.hub.SignBundle(ocitest.NewSigner(n.t), "pods", digest) }, "a signature isn't by the key (1)"},
		"another repository": {func(n *trusted, digest string) {
			payload, signature := n.signer.Simple(digest, n.hub.Addr+"/other")
			n.hub.PutSimple("pods", digest, payload, signature)
		}, "a signature by the key is for another repository (1)"},
		"another repository's bundle": {func(n *trusted, digest string) {
			n.hub.PutBundle("pods", digest, n.signer.Bundle(digest, n.hub.Addr+"/other"))
		}, "a signature by the key is for another repository (1)"},
		"a bundle for no repository": {func(n *trusted, digest string) { n.hub.PutBundle("pods", digest, n.signer.Bundle(digest, "")) },
			"a signature by the key doesn't name a repository: sign with -a docker-reference=REPOSITORY"},
		"the signature of the artifact before": {func(n *trusted, digest string) {
			payload, signature := n.signer.Simple(n.first, n.hub.Addr+"/pods")
			n.hub.PutSimple("pods", digest, payload, signature)
			n.hub.PutBundle("pods", digest, n.signer.Bundle(n.first, n.hub.Addr+"/pods"))
		}, "a signature is of another artifact (2)"},
		"a tampered payload": {func(n *trusted, digest string) {
			payload, signature := n.signer.Simple(n.first, n.hub.Addr+"/pods")
			n.hub.PutSimple("pods", digest, bytes.Replace(payload, []byte(n.first), []byte(digest), 1), signature)
		}, "a signature isn't by the key (1)"},
		"a tampered bundle": {func(n *trusted, digest string) {
			own, other := n.signer.Bundle(n.first, n.hub.Addr+"/pods"), n.signer.Bundle(digest, n.hub.Addr+"/pods")
			n.hub.PutBundle("pods", digest, swapPayload(n.t, own, other))
		}, "a signature isn't by the key (1)"},
		"a signature that can't be read": {func(n *trusted, digest string) {
			payload, _ := n.signer.Simple(digest, n.hub.Addr+"/pods")
			n.hub.PutSimple("pods", digest, payload, "hunter2\x1b[31m")
		}, "a signature can't be read (1)"},
		"no signature beside the payload": {func(n *trusted, digest string) {
			payload, _ := n.signer.Simple(digest, n.hub.Addr+"/pods")
			n.hub.PutSimple("pods", digest, payload, "")
		}, "a signature isn't by the key (1)"},
		"too many signatures before the good one": {func(n *trusted, digest string) {
			payload, signature := ocitest.NewSigner(n.t).Simple(digest, n.hub.Addr+"/pods")
			for range maxSignatures {
				n.hub.PutSimple("pods", digest, payload, signature)
			}
			n.hub.SignSimple(n.signer, "pods", digest)
		}, "a signature isn't by the key (32)"},
		"a manifest of signatures that is none": {func(n *trusted, digest string) {
			n.hub.PutManifest("pods", ocitest.SignatureTag(digest), ocitest.ManifestType, []byte("hunter2"))
		}, "it isn't signed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTrusted(t, Config{})
			digest := n.hub.Push("pods", "prod", at(20), pods("web", "v2"))
			tc.sign(n, digest)
			n.stays(name, digest, tc.want)
			if strings.Contains(n.log.String(), "hunter2") {
				t.Errorf("the log has text of the registry:\n%s", n.log)
			}
			good := n.hub.Push("pods", "prod", at(30), pods("web", "v3"))
			n.hub.SignBundle(n.signer, "pods", good)
			n.expect("web.yaml=v3")
		})
	}
}

// swapPayload returns a bundle with the payload of another one.
func swapPayload(t testing.TB, bundle, other []byte) []byte {
	t.Helper()
	payload := func(data []byte) []byte {
		_, rest, ok := bytes.Cut(data, []byte(`"payload":"`))
		text, _, ends := bytes.Cut(rest, []byte(`"`))
		if _, err := base64.StdEncoding.DecodeString(string(text)); !ok || !ends || err != nil {
			t.Fatalf("the bundle is %s", data)
		}
		return text
	}
	return bytes.Replace(bundle, payload(bundle), payload(other), 1)
}

// TestTampered: bytes that aren't those that were signed are refused, in each part.
func TestTampered(t *testing.T) {
	n := newTrusted(t, Config{})
	digest := n.hub.Push("pods", "prod", at(20), pods("web", "v2"))
	n.hub.SignSimple(n.signer, "pods", digest)
	evil := ocitest.Archive(t, pods("evil", "v2"))
	for name, tc := range map[string]struct {
		part string
		body []byte
		want string
	}{
		"layer":                 {"/blobs/", evil, "the registry sends"},
		"manifest":              {"/manifests/" + digest, n.hub.ManifestOf("pods", evil, at(20)), "the registry sends other bytes than those of the digest"},
		"manifest of the first": {"/manifests/" + digest, n.hub.Manifest("pods", n.first), "the registry sends other bytes than those of the digest"},
	} {
		n.hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, tc.part) {
				return false
			}
			w.Header().Set("Content-Type", ocitest.ManifestType)
			_, _ = w.Write(tc.body)
			return true
		})
		n.stays(name, digest, tc.want)
	}
	n.hub.Intercept(nil)
	n.expect("web.yaml=v2")
}
