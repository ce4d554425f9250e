package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/podstream/podstream/test/devnode"
)

// The credentials for private/ of a hub.
const (
	hubUser     = "puller"
	hubPassword = "sesame"
)

// hub is an image registry on the loopback interface, where runtimes accept plain HTTP. It has the sample image under
// each name that push was called with. Names that begin with private/ require a password. Requests for manifests of names
// that begin with gated/ wait until the gate is opened. Of names that begin with halved/, the second half of a layer does.
type hub struct {
	address string
	server  *httptest.Server

	mu    sync.Mutex
	gates map[string]chan struct{} // by repository; others are open
	// waiting counts the requests that wait at a gate, by repository.
	waiting map[string]int
}

// commonHub is the shared hub, after its first use.
var (
	commonHub  *hub
	theHubOnce sync.Once
)

// sharedHub starts the shared hub.
func sharedHub(t *testing.T) *hub {
	t.Helper()
	theHubOnce.Do(func() {
		h := &hub{gates: map[string]chan struct{}{}, waiting: map[string]int{}}
		store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
		h.server = httptest.NewServer(h.guard(store))
		h.address = h.server.Listener.Addr().(*net.TCPAddr).String()
		commonHub = h
	})
	return commonHub
}

// close opens all gates and ends the server.
func (h *hub) close() {
	h.mu.Lock()
	for repository := range h.gates {
		h.open(repository)
	}
	h.mu.Unlock()
	h.server.Close()
}

// guard checks the password, and waits at closed gates.
func (h *hub) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		known := user == hubUser && password == hubPassword
		path := strings.TrimPrefix(r.URL.Path, "/v2/")
		if strings.HasPrefix(path, "private/") && !known {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		if repository, _, found := strings.Cut(path, "/manifests/"); found && r.Method != http.MethodPut && !strings.HasPrefix(path, "halved/") {
			if !h.passes(r.Context(), repository) {
				return
			}
		}
		if repository, _, found := strings.Cut(path, "/blobs/"); found && r.Method == http.MethodGet && strings.HasPrefix(path, "halved/") {
			w = &halvedWriter{ResponseWriter: w, passes: func() bool { return h.passes(r.Context(), repository) }}
		}
		next.ServeHTTP(w, r)
	})
}

// passes waits until the repository's gate is open. False: the request has ended before.
func (h *hub) passes(ctx context.Context, repository string) bool {
	h.mu.Lock()
	gate := h.gates[repository]
	if gate != nil {
		h.waiting[repository]++
	}
	h.mu.Unlock()
	if gate == nil {
		return true
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting[repository]--
	}()
	select {
	case <-gate:
		return true
	case <-ctx.Done():
		return false
	}
}

// halvedWriter writes the first half of a body of more than 64 KiB at once, and the rest once passes returns true.
type halvedWriter struct {
	http.ResponseWriter
	passes func() bool
	// first is what is left of the first half.
	first  int
	halved bool
}

func (w *halvedWriter) WriteHeader(code int) {
	if n, err := strconv.Atoi(w.Header().Get("Content-Length")); err == nil && n > 64<<10 {
		w.first, w.halved = n/2, true
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *halvedWriter) Write(p []byte) (int, error) {
	if !w.halved {
		return w.ResponseWriter.Write(p)
	}
	n := min(w.first, len(p))
	written, err := w.ResponseWriter.Write(p[:n])
	if w.first -= written; err != nil || w.first > 0 {
		return written, err
	}
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return written, err
	}
	if !w.passes() {
		return written, errors.New("the request has ended")
	}
	w.halved = false
	rest, err := w.ResponseWriter.Write(p[n:])
	return written + rest, err
}

// push uploads the sample image, and returns its full name.
func (h *hub) push(t *testing.T, repository string) (image string) {
	t.Helper()
	built, err := devnode.BuildSampleImage(filepath.Join(nodes.BinDir, "sample"))
	check(t, err)
	return h.pushImage(t, repository, built)
}

// pushImage uploads an image, and returns its full name.
func (h *hub) pushImage(t *testing.T, repository string, built v1.Image) (image string) {
	t.Helper()
	h.pushBlobs(t, repository, built)
	manifest, err := built.RawManifest()
	check(t, err)
	mediaType, err := built.MediaType()
	check(t, err)
	return h.pushManifest(t, repository, string(mediaType), manifest)
}

// pushManifest uploads a manifest, also one that the registry's images don't fit, and returns its full name.
func (h *hub) pushManifest(t *testing.T, repository, mediaType string, manifest []byte) (image string) {
	t.Helper()
	h.put(t, repository+"/manifests/v1", mediaType, bytes.NewReader(manifest))
	return h.address + "/" + repository + ":v1"
}

// pushIndex uploads an index of this image for the machine, and the same for another one.
func (h *hub) pushIndex(t *testing.T, repository string, built v1.Image) (image string) {
	t.Helper()
	h.pushBlobs(t, repository, built)
	raw, err := built.RawManifest()
	check(t, err)
	digest, err := built.Digest()
	check(t, err)
	mediaType, err := built.MediaType()
	check(t, err)
	h.put(t, repository+"/manifests/"+digest.String(), string(mediaType), bytes.NewReader(raw))
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, architecture := range []string{"s390x", runtime.GOARCH} {
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: mediaType, Size: int64(len(raw)), Digest: digest, Platform: &v1.Platform{OS: "linux", Architecture: architecture},
		})
	}
	content, err := json.Marshal(index)
	check(t, err)
	return h.pushManifest(t, repository, string(types.OCIImageIndex), content)
}

// pushBlobs uploads the layers and the config of an image.
func (h *hub) pushBlobs(t *testing.T, repository string, built v1.Image) {
	t.Helper()
	layers, err := built.Layers()
	check(t, err)
	for _, layer := range layers {
		digest, err := layer.Digest()
		check(t, err)
		content, err := layer.Compressed()
		check(t, err)
		h.put(t, repository+"/blobs/uploads/1?digest="+digest.String(), "application/octet-stream", content)
	}
	config, err := built.RawConfigFile()
	check(t, err)
	digest, err := built.ConfigName()
	check(t, err)
	h.put(t, repository+"/blobs/uploads/1?digest="+digest.String(), "application/octet-stream", bytes.NewReader(config))
}

// put uploads one blob or manifest.
func (h *hub) put(t *testing.T, path, contentType string, content io.Reader) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+h.address+"/v2/"+path, content)
	check(t, err)
	request.SetBasicAuth(hubUser, hubPassword)
	request.Header.Set("Content-Type", contentType)
	response, err := h.server.Client().Do(request)
	check(t, err)
	check(t, response.Body.Close())
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("PUT %s: %s", path, response.Status)
	}
}

// gate closes the repository's gate. The returned function opens it.
func (h *hub) gate(repository string) (open func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gates[repository] = make(chan struct{})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.open(repository)
	}
}

// atGate returns how many requests wait at the repository's gate.
func (h *hub) atGate(repository string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[repository]
}

// open is called with mu held.
func (h *hub) open(repository string) {
	if gate := h.gates[repository]; gate != nil {
		close(gate)
		delete(h.gates, repository)
	}
}

// pullSecret returns a Secret for imagePullSecrets.
func (h *hub) pullSecret(name, password string) any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": map[string]any{"name": name},
		"stringData": map[string]any{
			".dockerconfigjson": fmt.Sprintf(`{"auths":{%q:{"username":%q,"password":%q}}}`, h.address, hubUser, password),
		},
	}
}
