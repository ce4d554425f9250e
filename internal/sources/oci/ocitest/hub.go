package ocitest

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Config configures a Hub.
type Config struct {
	// Referrers is set if the registry has the API of referrers.
	Referrers bool
	// TLS is the registry's. Nil: plain HTTP.
	TLS *tls.Config
}

// Hub is a registry.
type Hub struct {
	// Addr is its address on loopback.
	Addr string

	t       testing.TB
	content http.Handler
	server  *httptest.Server

	mu        sync.Mutex
	intercept func(http.ResponseWriter, *http.Request) bool
	requests  []*http.Request
}

// New returns a registry without content, which runs until the test ends.
func New(t testing.TB, cfg Config) *Hub {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	h := &Hub{t: t, content: registry.New(registry.Logger(quiet), registry.WithReferrersSupport(cfg.Referrers))}
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.server.Config.ErrorLog = quiet
	if h.server.TLS = cfg.TLS; cfg.TLS != nil {
		h.server.StartTLS()
	} else {
		h.server.Start()
	}
	h.Addr = h.server.Listener.Addr().String()
	t.Cleanup(h.Stop)
	return h
}

// Stop ends the registry, as if its host were down.
func (h *Hub) Stop() {
	h.server.CloseClientConnections()
	h.server.Close()
}

// Intercept sets what is called with each request from now on. If it returns true, it has answered. Nil: nothing.
func (h *Hub) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.intercept = f
}

// Requests returns the requests since the last call.
func (h *Hub) Requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.requests
	h.requests = nil
	return out
}

// Paths returns the methods and paths of requests.
func Paths(requests []*http.Request) string {
	var out []string
	for _, r := range requests {
		out = append(out, r.Method+" "+r.URL.Path)
	}
	return strings.Join(out, ", ")
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	f := h.intercept
	h.requests = append(h.requests, r)
	h.mu.Unlock()
	if f != nil && f(w, r) {
		return
	}
	h.content.ServeHTTP(w, r)
}

// do is a request of the test itself, which isn't intercepted.
func (h *Hub) do(method, path, mediaType string, body []byte) []byte {
	h.t.Helper()
	r := httptest.NewRequest(method, "http://"+h.Addr+path, bytes.NewReader(body))
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	w := httptest.NewRecorder()
	h.content.ServeHTTP(w, r)
	if w.Code >= 300 {
		h.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// Digest returns the digest of data.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// PutBlob adds a blob.
func (h *Hub) PutBlob(repository string, data []byte) (digest string) {
	h.t.Helper()
	digest = Digest(data)
	h.do(http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+url.QueryEscape(digest), "", data)
	return digest
}

// PutManifest adds a manifest under a tag.
func (h *Hub) PutManifest(repository, tag, mediaType string, data []byte) (digest string) {
	h.t.Helper()
	h.do(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaType, data)
	return Digest(data)
}

// Manifest returns the manifest of a tag or digest.
func (h *Hub) Manifest(repository, reference string) []byte {
	h.t.Helper()
	return h.do(http.MethodGet, "/v2/"+repository+"/manifests/"+reference, "", nil)
}

// Remove removes a tag.
func (h *Hub) Remove(repository, tag string) {
	h.t.Helper()
	h.do(http.MethodDelete, "/v2/"+repository+"/manifests/"+tag, "", nil)
}
