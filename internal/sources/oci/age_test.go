package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// push pushes a signed version, created at a second of a minute.
func (n *trusted) push(second int, image string) (digest string) {
	n.t.Helper()
	digest = n.hub.Push("pods", "prod", at(second), pods("web", image, "db", image))
	n.hub.SignBundle(n.signer, "pods", digest)
	return digest
}

// TestOlder: with Monotonic, a signed artifact that was created earlier than an accepted one is refused, over restarts,
// also without the stored artifact. Without Monotonic it is accepted.
func TestOlder(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	first := n.first
	second := n.push(20, "v2")
	n.expect("db.yaml=v2", "web.yaml=v2")
	back := func() { n.hub.PutManifest("pods", "prod", ocitest.ManifestType, n.hub.Manifest("pods", first)) }
	back()
	want := []string{first, "it is older than the newest one that was accepted (2026-01-02T03:04:10Z, and 2026-01-02T03:04:20Z)", "podctl sources accept oci"}
	n.refuses(want...)
	n.restart()
	n.refuses(want...)
	if n.restored == nil || show(*n.restored)[0] != "db.yaml=v2" {
		t.Errorf("the stored artifact is %v", n.restored)
	}
	for _, name := range []string{"pin.json", "blobs"} {
		if err := os.RemoveAll(filepath.Join(n.cfg.Dir, name)); err != nil {
			t.Fatal(err)
		}
		n.restart()
		n.refuses(want...)
	}
	// The same one, and a newer one, are fine.
	n.hub.PutManifest("pods", "prod", ocitest.ManifestType, n.hub.Manifest("pods", second))
	n.expect("db.yaml=v2", "web.yaml=v2")
	n.push(21, "v3")
	n.expect("db.yaml=v3", "web.yaml=v3")
	same := n.push(21, "v4")
	n.refuses(same, "it is created in the same second as the newest one")
	for _, created := range []string{"", "yesterday", "0001-01-01T00:00:00Z"} {
		m := strings.Replace(string(n.hub.ManifestOf("pods", ocitest.Archive(t, pods("web", "v5")), at(59))), "2026-01-02T03:04:59Z", created, 1)
		digest := n.hub.PutManifest("pods", "prod", ocitest.ManifestType, []byte(m))
		n.hub.SignSimple(n.signer, "pods", digest)
		n.refuses(digest, "it doesn't say when it was created, in the annotation org.opencontainers.image.created")
	}
	if n.serves() != 2 {
		t.Errorf("%d pods are served", n.serves())
	}
	n.cfg.Monotonic = false
	back()
	n.restart()
	n.expect("db.yaml=v1", "web.yaml=v1")
}

// TestOlderStored: a stored artifact that isn't the newest one that was used is refused too, when the registry has it, until
// an operator accepts it.
func TestOlderStored(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	n.stop()
	stored, err := os.ReadFile(filepath.Join(n.cfg.Dir, "newest.json"))
	if err != nil {
		t.Fatal(err)
	}
	// The newest one was used, and no disk has stored it.
	later := strings.NewReplacer(n.first, "sha256:"+strings.Repeat("0", 64), "03:04:10Z", "03:04:20Z").Replace(string(stored))
	write(t, n.cfg.Dir, "newest.json", []byte(later))
	n.start()
	want := []string{n.first, "it is older than the newest one that was accepted (2026-01-02T03:04:10Z, and 2026-01-02T03:04:20Z)"}
	n.refuses(want...)
	if n.restored == nil || n.serves() != 2 {
		t.Errorf("the stored artifact is %v, and %d pods are served", n.restored, n.serves())
	}
	n.refuses(want...)
	if accepted, err := n.source.Accept(); err != nil || !strings.Contains(accepted, n.first) {
		t.Errorf("Accept: %q, %v", accepted, err)
	}
	n.hear()
	n.expect("db.yaml=v1", "web.yaml=v1")
	n.restart()
	n.expect("db.yaml=v1", "web.yaml=v1")
}

// TestUnsignedTime: what isn't signed isn't accepted for being newer, and changes nothing of what is known.
func TestUnsignedTime(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	digest := n.hub.Push("pods", "prod", at(59), pods("web", "v2"))
	n.refuses(digest, "it isn't signed")
	n.push(20, "v3")
	n.expect("db.yaml=v3", "web.yaml=v3")
}

// TestUnusableTime: an artifact that is signed and newer, but can't be used, doesn't count as the newest one.
func TestUnusableTime(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	m := n.hub.ManifestOf("pods", ocitest.Archive(t, map[string]string{"../web.yaml": "x"}), at(59))
	digest := n.hub.PutManifest("pods", "prod", ocitest.ManifestType, m)
	n.hub.SignSimple(n.signer, "pods", digest)
	n.refuses(digest, `has a ".."`)
	n.push(20, "v3")
	n.expect("db.yaml=v3", "web.yaml=v3")
}

// TestAccept: an operator accepts the older artifact that is refused, and no other one; it is the newest one from then on.
func TestAccept(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	n.push(30, "v3")
	n.expect("db.yaml=v3", "web.yaml=v3")
	if what, err := n.source.Accept(); what != "" || err != nil {
		t.Errorf("nothing is refused, and accepted is %q, %v", what, err)
	}
	second := n.push(20, "v2")
	n.refuses(second, "older than")
	what, err := n.source.Accept()
	if err != nil || !strings.Contains(what, second) {
		t.Errorf("accepted is %q, %v; want %s", what, err, second)
	}
	// The registry is asked at once.
	if set, _ := n.hear(); set.Err != nil || show(set)[0] != "db.yaml=v2" {
		t.Errorf("after that the set is %q, %v", show(set), set.Err)
	}
	n.hub.PutManifest("pods", "prod", ocitest.ManifestType, n.hub.Manifest("pods", n.first))
	n.refuses(n.first, "older than the newest one that was accepted (2026-01-02T03:04:10Z, and 2026-01-02T03:04:20Z)")
	n.push(25, "v25")
	n.expect("db.yaml=v25", "web.yaml=v25")
	if what, _ := n.source.Accept(); what != "" {
		t.Errorf("nothing is refused any more, and accepted is %q", what)
	}
	n.restart()
	n.expect("db.yaml=v25", "web.yaml=v25")
	n.hub.PutManifest("pods", "prod", ocitest.ManifestType, n.hub.Manifest("pods", second))
	n.refuses(second, "older than")
}

// TestUnknownAge: if it can't be read or stored what the newest artifact was, another one is refused, and the accepted one
// isn't removed.
func TestUnknownAge(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	newest := filepath.Join(n.cfg.Dir, "newest.json")
	n.stop()
	write(t, n.cfg.Dir, "newest.json", []byte("{"))
	n.start()
	n.refuses(n.first, "newest.json: it is damaged; to accept the present one, remove the file")
	if n.restored == nil || n.serves() != 2 {
		t.Errorf("the stored artifact is %v; %d pods are served", n.restored, n.serves())
	}
	second := n.push(20, "v2")
	n.refuses(second, "newest.json: it is damaged")
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(newest, 0o700); err != nil {
		t.Fatal(err)
	}
	n.refuses(second, "newest.json")
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	n.expect("db.yaml=v2", "web.yaml=v2")
}

// TestUnstoredAge: an artifact whose age can't be stored isn't used.
func TestUnstoredAge(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	if err := os.RemoveAll(n.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(n.cfg.Dir), filepath.Base(n.cfg.Dir), nil)
	second := n.push(20, "v2")
	n.refuses(second, "not a directory")
	if n.serves() != 2 {
		t.Errorf("%d pods are served", n.serves())
	}
	if err := os.Remove(n.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	n.expect("db.yaml=v2", "web.yaml=v2")
}

// TestAgeWithoutDir: without a directory, nothing is accepted: a restart would forget what the newest artifact was.
func TestAgeWithoutDir(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	n.cfg.Dir = ""
	n.restart()
	n.refuses(n.first, string(errNoDir))
}

// TestMonotonicLater: when the setting is new, the artifact that was accepted before counts as the newest one.
func TestMonotonicLater(t *testing.T) {
	n := newTrusted(t, Config{})
	n.push(20, "v2")
	n.expect("db.yaml=v2", "web.yaml=v2")
	n.cfg.Monotonic = true
	n.restart()
	n.expect("db.yaml=v2", "web.yaml=v2")
	n.hub.PutManifest("pods", "prod", ocitest.ManifestType, n.hub.Manifest("pods", n.first))
	n.refuses(n.first, "older than")
}

// TestOtherTag: the newest artifact of one tag says nothing of another tag, which the administrator has chosen.
func TestOtherTag(t *testing.T) {
	n := newTrusted(t, Config{Monotonic: true})
	older := n.hub.Push("pods", "test", at(5), pods("web", "v0"))
	n.hub.SignSimple(n.signer, "pods", older)
	n.cfg.Reference = n.hub.Addr + "/pods:test"
	n.restart()
	n.expect("web.yaml=v0")
	a := &artifact{document: document{Annotations: map[string]string{createdAnnotation: "2026-01-02T03:04:05+02:00"}}}
	if got, ok := a.created(); !ok || !got.Equal(time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC)) {
		t.Errorf("a time with a zone is %v, %v", got, ok)
	}
}
