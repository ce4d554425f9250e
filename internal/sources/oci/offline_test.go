package oci

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// TestOfflineBoot: without the registry, the stored artifact makes the source ready, with its ConfigMaps and Secrets. The
// registry was heard when the artifact was accepted. When it answers, what it has counts.
func TestOfflineBoot(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	files := pods("web", "v1")
	files["settings.yaml"] = configMap
	files["secret.yaml"] = "{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {a: b}}\n"
	hub.Push("pods", "prod", at(1), files)
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	before := n.expect("secret.yaml object", "settings.yaml object", "web.yaml=v1")
	n.stop()
	down := func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true }
	hub.Intercept(down)
	n.start()
	n.refuses("status 502 Bad Gateway")
	if n.restored == nil || strings.Join(show(*n.restored), " ") != "secret.yaml object settings.yaml object web.yaml=v1" || n.restored.Err != nil {
		t.Fatalf("the stored artifact has %v", n.restored)
	}
	if n.restored.Origins[2].Pods[0].UID != before.Origins[2].Pods[0].UID || n.restored.Heard.IsZero() || n.restored.Heard.After(n.restored.ReadTime) {
		t.Errorf("the stored set is %+v", n.restored)
	}
	if n.serves() != 1 || !n.ready() {
		t.Errorf("%d pods are served, ready: %v", n.serves(), n.ready())
	}
	hub.Intercept(nil)
	again := n.expect("secret.yaml object", "settings.yaml object", "web.yaml=v1")
	if !slices.Equal(again.Origins, n.restored.Origins) {
		t.Error("an unchanged artifact has other origins than the stored one")
	}
	hub.Intercept(down)
	n.restart()
	n.refuses("status 502")
	hub.Intercept(nil)
	hub.Push("pods", "prod", at(2), pods("web", "v2"))
	n.expect("web.yaml=v2")
}

// TestDamagedPin: a stored artifact that isn't what was accepted isn't used, whatever was changed. The registry's replaces
// it.
func TestDamagedPin(t *testing.T) {
	n := newTrusted(t, Config{})
	evil := newTrusted(t, Config{})
	blobs := func(of *trusted) []string {
		paths, err := filepath.Glob(filepath.Join(of.cfg.Dir, "blobs", "*"))
		if err != nil || len(paths) != 2 {
			t.Fatalf("the parts are %q, %v", paths, err)
		}
		return paths
	}
	pin := filepath.Join(n.cfg.Dir, "pin.json")
	text, err := os.ReadFile(pin)
	if err != nil {
		t.Fatal(err)
	}
	evilText, err := os.ReadFile(filepath.Join(evil.cfg.Dir, "pin.json"))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(){
		"a part changed":    func() { replace(blobs(n)[0], []byte("x")) },
		"another part":      func() { replace(blobs(n)[1], []byte("x")) },
		"a part is gone":    func() { _ = os.Remove(blobs(n)[0]) },
		"no JSON":           func() { replace(pin, text[:20]) },
		"empty":             func() { replace(pin, []byte("{}")) },
		"unsigned":          func() { replace(pin, []byte(strings.Replace(string(text), "evidence", "other", 1))) },
		"another signature": func() { replace(pin, []byte(strings.Replace(string(text), `"signature":"ME`, `"signature":"MF`, 1))) },
		"another reference": func() { replace(pin, []byte(strings.Replace(string(text), "pods:prod", "pods:test", 1))) },
		"another source's": func() {
			for _, path := range blobs(evil) {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				replace(filepath.Join(n.cfg.Dir, "blobs", filepath.Base(path)), data)
			}
			replace(pin, []byte(strings.Replace(string(evilText), evil.hub.Addr, n.hub.Addr, 1)))
		},
		"an evil index": func() {
			data := []byte(`{"manifests":[]}`)
			replace(filepath.Join(n.cfg.Dir, "blobs", strings.Replace(ocitest.Digest(data), ":", "-", 1)), data)
			replace(pin, []byte(strings.Replace(string(text), n.first, ocitest.Digest(data), 1)))
		},
	} {
		n.stop()
		damage()
		n.start()
		n.expect("db.yaml=v1", "web.yaml=v1")
		if n.restored != nil {
			t.Errorf("%s: the stored artifact is used: %q", name, show(*n.restored))
		}
		if got := n.log.Count("level=WARN", "The stored artifact isn't used"); got != 1 {
			t.Errorf("%s: that was logged %d times:\n%s", name, got, n.log)
		}
		n.log.Take()
		n.restart()
		n.expect("db.yaml=v1", "web.yaml=v1")
		if n.restored == nil {
			t.Errorf("%s: the registry's artifact didn't replace the damaged one", name)
		}
		n.log.Take()
	}
}

// TestOtherReference: the stored artifact of another reference isn't used.
func TestOtherReference(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	first := hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect("web.yaml=v1")
	hub.Push("pods", "test", at(1), pods("web", "v2"))
	n.cfg.Reference = hub.Addr + "/pods:test"
	n.restart()
	if n.expect("web.yaml=v2"); n.restored != nil {
		t.Error("the artifact of another tag is used")
	}
	n.cfg.Reference = hub.Addr + "/pods@" + first
	n.restart()
	if n.expect("web.yaml=v1"); n.restored != nil {
		t.Error("the artifact of a tag is used for another digest")
	}
	n.restart()
	if n.expect("web.yaml=v1"); n.restored == nil {
		t.Error("the artifact of a digest isn't used")
	}
}

// TestUnstored: an artifact that can't be stored is used, with a warning, until it can be stored.
func TestUnstored(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	blocked := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(blocked), "file", nil)
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod", Dir: filepath.Join(blocked, "oci")})
	set := n.expect("web.yaml=v1", "whole noted")
	if f := set.Origins[1].Findings[0]; f.Severity != manifest.Warning || !strings.HasPrefix(f.Message, "it can't be stored, so after a restart") {
		t.Errorf("the finding is %+v", f)
	}
	again := n.expect("web.yaml=v1", "whole noted")
	if !slices.Equal(set.Origins, again.Origins) || n.log.Count("Manifest has a warning", "can't be stored") != 1 {
		t.Errorf("a lasting warning is another one each time:\n%s", n.log)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	hub.Requests()
	n.expect("web.yaml=v1")
	if got := ocitest.Paths(hub.Requests()); got != "HEAD /v2/pods/manifests/prod" {
		t.Errorf("to store the artifact, the requests are %q", got)
	}
	n.restart()
	if n.expect("web.yaml=v1"); n.restored == nil {
		t.Error("the artifact wasn't stored")
	}
}

// TestUnstoredSuccessor: an artifact that can't be stored is in use. A restart without the registry doesn't bring back the one
// before, which is stored: the pods stay those of podconfigd's own store.
func TestUnstoredSuccessor(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect("web.yaml=v1")
	next := hub.Push("pods", "prod", at(2), pods("web", "v2"))
	// No file can have the name of this part any more.
	blocked := filepath.Join(n.cfg.Dir, "blobs", strings.Replace(next, ":", "-", 1))
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.expect("web.yaml=v2", "whole noted")
	hub.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	n.restart()
	n.refuses("status 502")
	if n.restored != nil {
		t.Errorf("the artifact before is back: %q", show(*n.restored))
	}
	hub.Intercept(nil)
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	n.expect("web.yaml=v2")
	n.restart()
	if n.expect("web.yaml=v2"); n.restored == nil {
		t.Error("the artifact wasn't stored at last")
	}
}

// TestNoDir: without a directory nothing is stored.
func TestNoDir(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod", Dir: filepath.Join(t.TempDir(), "oci", "oci")})
	n.cfg.Dir = ""
	for range 2 {
		n.restart()
		if n.expect("web.yaml=v1"); n.restored != nil {
			t.Error("there is a stored artifact")
		}
	}
}
