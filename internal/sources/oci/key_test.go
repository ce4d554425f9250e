package oci

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

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
