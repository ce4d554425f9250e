package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// pushed is a registry with one artifact.
func pushed(t testing.TB) (hub *ocitest.Hub, digest string, layer []byte) {
	t.Helper()
	hub = ocitest.New(t, ocitest.Config{})
	layer = ocitest.Archive(t, map[string]string{"web.yaml": ocitest.Pod("web", "v1")})
	return hub, hub.PutManifest("pods", "v1", ocitest.ManifestType, hub.ManifestOf("pods", layer, time.Time{})), layer
}

// TestReading: an artifact is read by its tag and by its digest. What doesn't exist isn't found.
func TestReading(t *testing.T) {
	hub, digest, layer := pushed(t)
	for _, ref := range []string{hub.Addr + "/pods:v1", hub.Addr + "/pods@" + digest} {
		r := open(t, Config{Reference: reference(t, ref)}, Login{}, nil)
		if got, err := r.Resolve(); err != nil || got != digest {
			t.Errorf("%s has the digest %s, %v; want %s", ref, got, err, digest)
		}
		if got, err := r.Manifest(digest); err != nil || digestOf(got) != digest {
			t.Errorf("its manifest is %q, %v", got, err)
		}
		if got, err := r.Blob(digestOf(layer), int64(len(layer))); err != nil || !bytes.Equal(got, layer) {
			t.Errorf("its layer has %d bytes, %v; want %d", len(got), err, len(layer))
		}
		for what, read := range map[string]func() error{
			"manifest": func() error { _, err := r.Manifest("sha256:" + strings.Repeat("0", 64)); return err },
			"blob":     func() error { _, err := r.Blob("sha256:"+strings.Repeat("0", 64), 5); return err },
			"tag":      func() error { _, err := r.Tagged("none"); return err },
		} {
			if err := read(); !errors.Is(err, ErrNotFound) {
				t.Errorf("a %s that doesn't exist: %v", what, err)
			}
		}
		if list, err := r.Referrers(digest); err != nil || len(list) != 0 {
			t.Errorf("without signatures there are %v, %v", list, err)
		}
	}
}

// TestOneRequestAPoll: the registry is asked how it authenticates once, not in each reading.
func TestOneRequestAPoll(t *testing.T) {
	hub, _, _ := pushed(t)
	client := New(Config{Reference: reference(t, hub.Addr+"/pods:v1")})
	for i, want := range []string{"GET /v2/, HEAD /v2/pods/manifests/v1", "HEAD /v2/pods/manifests/v1"} {
		r := client.Open(t.Context(), Login{}, nil)
		if _, err := r.Resolve(); err != nil {
			t.Fatal(err)
		}
		r.Close()
		if got := ocitest.Paths(hub.Requests()); got != want {
			t.Errorf("reading %d made the requests %q; want %q", i, got, want)
		}
	}
}

// TestWithoutHead: a registry that doesn't answer HEAD, or without a digest, is read by GET.
func TestWithoutHead(t *testing.T) {
	hub, digest, _ := pushed(t)
	for name, act := range map[string]func(w http.ResponseWriter){
		"no such method": func(w http.ResponseWriter) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"no digest": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", ocitest.ManifestType)
			w.Header().Set("Content-Length", "100")
		},
		"nothing at all": func(http.ResponseWriter) {},
	} {
		hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead {
				act(w)
			}
			return r.Method == http.MethodHead
		})
		r := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil)
		if got, err := r.Resolve(); err != nil || got != digest {
			t.Errorf("%s: %s, %v; want %s", name, got, err, digest)
		}
	}
}

// TestLies: bytes that don't have the digest are refused, and too many of them aren't read.
func TestLies(t *testing.T) {
	hub, digest, layer := pushed(t)
	size := int64(len(layer))
	text := func(data string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocitest.ManifestType)
			_, _ = w.Write([]byte(data))
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}
	const manifests, blobs = "/manifests/", "/blobs/"
	for _, tc := range []struct {
		name string
		part string
		act  func(http.ResponseWriter, *http.Request)
		read func(r *Reading) error
		want string
	}{
		{"another manifest", manifests, text("{}"), manifest(digest), string(errDigest)},
		{"a manifest of 2 MiB", manifests, text(strings.Repeat(" ", 2<<20)), manifest(digest), string(errLarge)},
		{"an endless manifest", manifests, endless, manifest(digest), string(errLarge)},
		{"another blob", blobs, text(strings.Repeat("x", int(size))), blob(digestOf(layer), size), string(errDigest)},
		{"a longer blob", blobs, text(string(layer) + "x"), blob(digestOf(layer), size), string(errLarge)},
		{"an endless blob", blobs, endless, blob(digestOf(layer), size), string(errLarge)},
		{"a shorter blob", blobs, text(string(layer[:5])), blob(digestOf(layer), size), string(errDigest)},
		{"a blob of another size", "none", nil, blob(digestOf(layer), size+1), string(errSize)},
		{"a list that is no JSON", "/manifests/sha256-", text("{"), referrers(digest), string(errIndex)},
		{"a digest of another algorithm", manifests, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Docker-Content-Digest", "sha512:"+strings.Repeat("a", 128))
			w.Header().Set("Content-Type", ocitest.ManifestType)
			w.Header().Set("Content-Length", "5")
		}, resolved, string(errAlgorithm)},
		{"status 500 with a text", manifests, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter2\x1b[31m", 500) }, resolved,
			"status 500 Internal Server Error"},
		{"a denial", manifests, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"errors":[{"code":"hunter2"},{"code":"DENIED","message":"hunter2"}]}`))
		}, manifest(digest), "status 403 Forbidden (DENIED): the registry doesn't let these credentials"},
	} {
		hub.Intercept(answer(tc.part, tc.act))
		r := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil)
		refused(t, tc.name, tc.read(r), tc.want)
	}
}

func manifest(digest string) func(*Reading) error {
	return func(r *Reading) error { _, err := r.Manifest(digest); return err }
}

func blob(digest string, size int64) func(*Reading) error {
	return func(r *Reading) error { _, err := r.Blob(digest, size); return err }
}

func referrers(digest string) func(*Reading) error {
	return func(r *Reading) error { _, err := r.Referrers(digest); return err }
}

func resolved(r *Reading) error { _, err := r.Resolve(); return err }

// TestRetryAfter: the time that a busy registry asks for is in the error.
func TestRetryAfter(t *testing.T) {
	hub, _, _ := pushed(t)
	hub.Intercept(answer("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	_, err := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil).Resolve()
	var asking interface{ RetryAfter() time.Duration }
	if !errors.As(err, &asking) || asking.RetryAfter() != 90*time.Second {
		t.Errorf("the error is %v; want one that asks for 90 s", err)
	}
}

// TestTime: a registry that hangs, before or within an answer, is left when the context ends.
func TestTime(t *testing.T) {
	hub, digest, layer := pushed(t)
	for name, tc := range map[string]struct {
		part string
		act  func(w http.ResponseWriter)
		read func(*Reading) error
	}{
		"at once":          {"/v2/", func(http.ResponseWriter) {}, resolved},
		"in a manifest":    {"/manifests/", func(w http.ResponseWriter) { _, _ = w.Write([]byte("{")) }, manifest(digest)},
		"in a blob":        {"/blobs/", func(w http.ResponseWriter) { _, _ = w.Write(layer[:9]) }, blob(digestOf(layer), int64(len(layer)))},
		"in its referrers": {"/manifests/sha256-", func(http.ResponseWriter) {}, referrers(digest)},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		hub.Intercept(answer(tc.part, func(w http.ResponseWriter, r *http.Request) {
			tc.act(w)
			_ = http.NewResponseController(w).Flush()
			cancel(context.DeadlineExceeded)
			<-r.Context().Done()
		}))
		r := New(Config{Reference: reference(t, hub.Addr+"/pods:v1"), Timeout: time.Minute}).Open(ctx, Login{}, nil)
		refused(t, name, tc.read(r), "no complete answer within 1m0s")
		r.Close()
	}
}

// TestManyRedirects: a loop of redirects ends by the number of requests.
func TestManyRedirects(t *testing.T) {
	hub, digest, layer := pushed(t)
	hub.Intercept(answer("/blobs/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }))
	r := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil)
	refused(t, "a loop", blob(digestOf(layer), int64(len(layer)))(r), string(errRequests))
	if n := len(hub.Requests()); n > maxRequests {
		t.Errorf("%d requests were made", n)
	}
	hub.Intercept(nil)
	// The next reading has its own limit.
	again := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil)
	if _, err := again.Manifest(digest); err != nil {
		t.Errorf("the next reading: %v", err)
	}
}

// TestBytes: all responses of a reading together are bounded.
func TestBytes(t *testing.T) {
	hub, _, _ := pushed(t)
	var digests []string
	for i := range 5 {
		digests = append(digests, hub.PutBlob("pods", bytes.Repeat([]byte{byte(i)}, 8<<20)))
	}
	r := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil)
	var err error
	for _, digest := range digests {
		if _, err = r.Blob(digest, 8<<20); err != nil {
			break
		}
	}
	refused(t, "five blobs", err, string(errBytes))
}

// TestUnreachable: failures of the connection have words of their own.
func TestUnreachable(t *testing.T) {
	hub, _, _ := pushed(t)
	hub.Stop()
	r := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil)
	_, err := r.Resolve()
	refused(t, "a closed port", err, "connection refused")
	var own fault.Error
	if !errors.As(err, &own) || fmt.Sprint(err) != "connection refused" {
		t.Errorf("the error is %q", err)
	}
}
