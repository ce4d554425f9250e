package oci

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestSignatureRemoved: an artifact that was accepted stays, when its signature is removed later; and so it does after a
// restart, by the stored signature. Another node doesn't accept it.
func TestSignatureRemoved(t *testing.T) {
	n := newTrusted(t, Config{})
	n.hub.Remove("pods", ocitest.SignatureTag(n.first))
	n.expect("db.yaml=v1", "web.yaml=v1")
	n.restart()
	n.expect("db.yaml=v1", "web.yaml=v1")
	if n.restored == nil {
		t.Error("the stored artifact wasn't used")
	}
	cfg := n.cfg
	cfg.Dir = filepath.Join(t.TempDir(), "oci", "other")
	newNode(t, cfg).refuses(n.first, "it isn't signed")
}

// TestKeys: the present key counts. What it hasn't signed is refused, after a restart too, and what it has signed in the
// meantime is accepted. A key file that can't be used accepts nothing.
func TestKeys(t *testing.T) {
	n := newTrusted(t, Config{})
	next := ocitest.NewSigner(t)
	write(t, filepath.Dir(n.cfg.PublicKeyFile), "cosign.pub", next.PEM)
	n.refuses(n.first, "a signature isn't by the key (1)")
	n.restart()
	n.refuses(n.first, "a signature isn't by the key (1)")
	if n.restored != nil {
		t.Errorf("the stored artifact is used without a signature by the present key: %q", show(*n.restored))
	}
	if n.serves() != 2 || n.log.Count("level=WARN", "The stored artifact isn't used", "a signature isn't by the key") != 1 {
		t.Errorf("%d pods are served; the log is\n%s", n.serves(), n.log)
	}
	n.hub.SignBundle(next, "pods", n.first)
	n.expect("db.yaml=v1", "web.yaml=v1")
	n.restart()
	n.expect("db.yaml=v1", "web.yaml=v1")
	if n.restored == nil {
		t.Error("the stored artifact isn't used by the signature of the other key")
	}
	// With the artifact accepted already, another signature is found and stored, too.
	third := ocitest.NewSigner(t)
	n.hub.SignSimple(third, "pods", n.first)
	write(t, filepath.Dir(n.cfg.PublicKeyFile), "cosign.pub", third.PEM)
	n.expect("db.yaml=v1", "web.yaml=v1")
	n.restart()
	n.expect("db.yaml=v1", "web.yaml=v1")
	if n.restored == nil {
		t.Error("the signature by the third key wasn't stored")
	}

	for text, want := range map[string]string{"": "there is no public key in PEM", "hunter2": "there is no public key in PEM", "gone": "no such file"} {
		if text == "gone" {
			if err := os.Remove(n.cfg.PublicKeyFile); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, filepath.Dir(n.cfg.PublicKeyFile), "cosign.pub", []byte(text))
		}
		n.refuses("public key: ", want)
		n.restart()
		n.refuses("public key: ", want)
		if n.restored != nil || n.serves() != 2 {
			t.Errorf("key %q: the stored artifact is %v, %d pods are served", text, n.restored, n.serves())
		}
	}
}

// TestKeyAfterwards: an artifact that was accepted without a key isn't used after a restart with one, unless the key has
// signed it. Its pods stay.
func TestKeyAfterwards(t *testing.T) {
	hub, signer := ocitest.New(t, ocitest.Config{}), ocitest.NewSigner(t)
	digest := hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect("web.yaml=v1")
	n.cfg.PublicKeyFile = write(t, t.TempDir(), "cosign.pub", signer.PEM)
	n.restart()
	n.refuses(digest, "it isn't signed")
	if n.restored != nil || n.serves() != 1 {
		t.Errorf("the stored artifact is %v, %d pods are served", n.restored, n.serves())
	}
	hub.SignSimple(signer, "pods", digest)
	n.expect("web.yaml=v1")
}

// TestAnyRepository: with it, signatures for another repository or for none are accepted, and still only those by the key.
func TestAnyRepository(t *testing.T) {
	n := newTrusted(t, Config{AnyRepository: true})
	second := n.hub.Push("pods", "prod", at(20), pods("web", "v2"))
	n.hub.PutBundle("pods", second, ocitest.NewSigner(t).Bundle(second, ""))
	n.stays("another key", second, "a signature isn't by the key")
	n.hub.PutBundle("pods", second, n.signer.Bundle(second, ""))
	n.expect("web.yaml=v2")
	third := n.hub.Push("pods", "prod", at(30), pods("web", "v3"))
	payload, signature := n.signer.Simple(third, "registry.example/origin")
	n.hub.PutSimple("pods", third, payload, signature)
	n.expect("web.yaml=v3")
	n.cfg.AnyRepository = false
	n.restart()
	n.refuses(third, "another repository")
}

// TestHang: a registry that hangs or drips, at any request, is left at the end of the time. The pods stay.
func TestHang(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{
		"the digest": "/manifests/prod", "the manifest": "/manifests/sha256:", "the signatures": ".sig", "the layer": "/blobs/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTrusted(t, Config{})
			digest := n.hub.Push("pods", "prod", at(20), pods("web", "v2"))
			n.hub.SignSimple(n.signer, "pods", digest)
			stuck := make(chan struct{}, 10)
			n.hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, part) {
					return false
				}
				w.Header().Set("Content-Type", ocitest.ManifestType)
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				stuck <- struct{}{}
				<-r.Context().Done()
				return true
			})
			n.timer.c <- time.Time{}
			await(t, stuck, "the request")
			n.clock.expired <- time.Time{}
			set, rev := n.hear()
			n.checkRefusal(set, rev, "no complete answer within 17s")
			if n.serves() != 2 {
				t.Errorf("%d pods are served", n.serves())
			}
			n.hub.Intercept(nil)
			n.expect("web.yaml=v2")
		})
	}
}

// TestStop: Run ends while the registry hangs.
func TestStop(t *testing.T) {
	n := newTrusted(t, Config{})
	stuck := make(chan struct{}, 1)
	n.hub.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		stuck <- struct{}{}
		<-r.Context().Done()
		return true
	})
	n.timer.c <- time.Time{}
	await(t, stuck, "the request")
	n.cancel()
	if err := await(t, n.done, "the end of Run"); err != nil {
		t.Errorf("Run: %v", err)
	}
	n.cancel = nil
}
