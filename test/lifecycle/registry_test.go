package lifecycle

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/podstream/podstream/test/devnode"
)

// The credentials for private/ of a hub.
const (
	hubUser     = "puller"
	hubPassword = "sesame"
)

// hub is an image registry on the loopback interface, where runtimes accept plain HTTP. It has the sample image under
// each name that push was called with. Names that begin with private/ require a password. Requests for names that
// begin with gated/ wait until the gate is opened.
type hub struct {
	address string
	server  *httptest.Server

	mu    sync.Mutex
	gates map[string]chan struct{} // by repository; others are open
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
		h := &hub{gates: map[string]chan struct{}{}}
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
		if repository, _, found := strings.Cut(path, "/manifests/"); found && r.Method != http.MethodPut {
			h.mu.Lock()
			gate := h.gates[repository]
			h.mu.Unlock()
			if gate != nil {
				select {
				case <-gate:
				case <-r.Context().Done():
					return
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// push uploads the sample image, and returns its full name.
func (h *hub) push(t *testing.T, repository string) (image string) {
	t.Helper()
	built, err := devnode.BuildSampleImage(filepath.Join(nodes.BinDir, "sample"))
	check(t, err)
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
	manifest, err := built.RawManifest()
	check(t, err)
	mediaType, err := built.MediaType()
	check(t, err)
	h.put(t, repository+"/manifests/v1", string(mediaType), bytes.NewReader(manifest))
	return h.address + "/" + repository + ":v1"
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
