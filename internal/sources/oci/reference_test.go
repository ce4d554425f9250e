package oci

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// TestReferences: what is a reference, and where it leads. A digest stands for itself.
func TestReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"registry.example/pods:prod": "oci://registry.example/pods:prod", "oci://registry.example:5000/a/b/c:1.2": "oci://registry.example:5000/a/b/c:1.2",
		"registry.example/pods@" + digest: "oci://registry.example/pods@" + digest, "registry.example/pods:prod@" + digest: "oci://registry.example/pods@" + digest,
		"docker.io/team/pods:x": "oci://index.docker.io/team/pods:x", "localhost:5000/pods:x": "oci://localhost:5000/pods:x",
		"": "", "pods": "", "pods:prod": "", "registry.example/pods": "", "team/pods:prod": "", "https://registry.example/pods:prod": "",
		"registry.example/pods@sha512:" + strings.Repeat("a", 128): "", "registry.example/pods@sha256:abc": "", "user:hunter2@registry.example/pods:prod": "",
		"registry.example/Pods:prod": "", "registry.example/pods:prod x": "", "oci://oci://registry.example/pods:prod": "",
	} {
		ref, err := ParseReference(text, false)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is %s", text, ref)
		case want != "" && (err != nil || Location(ref) != want):
			t.Errorf("%q is %v, %v; want %s", text, ref, err, want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("the error quotes a credential: %v", err)
		}
	}
	hub := ocitest.New(t, ocitest.Config{})
	first := hub.Push("pods", "prod", at(1), pods("web", "v1"))
	hub.Push("pods", "prod", at(2), pods("web", "v2"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods@" + first})
	n.expect("web.yaml=v1")
	hub.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
	if err := n.refuses("@" + first + ": status 500"); strings.Count(err.Error(), "sha256:") != 1 {
		t.Errorf("the digest isn't named once: %v", err)
	}
}

// TestPace: readings are spread, and earlier after a failure, unless the registry asks for more.
func TestPace(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod", Interval: 100 * time.Second})
	n.refuses("status 404 Not Found")
	if n.timer.wait > 2200*time.Millisecond {
		t.Errorf("after a failure the next reading is after %v", n.timer.wait)
	}
	hub.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "200")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	n.refuses("status 429 Too Many Requests")
	if n.timer.wait < 200*time.Second {
		t.Errorf("a busy registry is asked after %v", n.timer.wait)
	}
	hub.Intercept(nil)
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n.expect("web.yaml=v1")
	if n.timer.wait < 85*time.Second || n.timer.wait > 110*time.Second {
		t.Errorf("the next reading is after %v; want about 100 s", n.timer.wait)
	}
}

// TestConfigs: what New refuses.
func TestConfigs(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no reference":      {},
		"monotonic, no key": {Reference: "a.example/b:c", Monotonic: true, Dir: "/d"},
	} {
		if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), "source oci: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
