package web

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podstream/podstream/test/rig"
)

// slowRegistry is a registry on loopback with one image. It sends as many bytes of layers as it was allowed to.
type slowRegistry struct {
	server *httptest.Server
	// name is the image's name.
	name string
	// total is the size of all layers.
	total int64

	mu            sync.Mutex
	allowed, sent int64
	// more is closed and replaced when more is allowed.
	more chan struct{}
}

func startSlowRegistry(t *testing.T, image v1.Image) *slowRegistry {
	t.Helper()
	s := &slowRegistry{more: make(chan struct{})}
	manifest, config := rig.Get(image.RawManifest())(t), rig.Get(image.RawConfigFile())(t)
	layers := map[string]v1.Layer{}
	for _, layer := range rig.Get(image.Layers())(t) {
		layers[rig.Get(layer.Digest())(t).String()] = layer
		s.total += rig.Get(layer.Size())(t)
	}
	mediaType, digest, configDigest := rig.Get(image.MediaType())(t), rig.Get(image.Digest())(t), rig.Get(image.ConfigName())(t)
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/large/"), "/")
		layer := layers[id]
		switch {
		case r.URL.Path == "/v2/":
		case what == "manifests":
			w.Header().Set("Content-Type", string(mediaType))
			w.Header().Set("Docker-Content-Digest", digest.String())
			w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
			_, _ = w.Write(manifest)
		case id == configDigest.String():
			_, _ = w.Write(config)
		case layer != nil:
			s.send(w, r, layer)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.server.Close)
	t.Cleanup(func() { s.allow(math.MaxInt64) })
	s.name = strings.TrimPrefix(s.server.URL, "http://") + "/large:v1"
	return s
}

func (s *slowRegistry) send(w http.ResponseWriter, r *http.Request, layer v1.Layer) {
	content, err := layer.Compressed()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer content.Close()
	size, err := layer.Size()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if r.Method == http.MethodGet {
		_, _ = io.Copy(w, &allowedReader{r.Context(), s, content})
	}
}

// allow sets how many bytes may be sent in all.
func (s *slowRegistry) allow(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = bytes
	close(s.more)
	s.more = make(chan struct{})
}

// take returns how many of n bytes may be sent now. It waits until at least one may.
func (s *slowRegistry) take(ctx context.Context, n int) (int, error) {
	for {
		s.mu.Lock()
		now, more := min(int64(n), s.allowed-s.sent), s.more
		s.sent += now
		s.mu.Unlock()
		if now > 0 {
			return int(now), nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// giveBack takes back n bytes of take that there weren't.
func (s *slowRegistry) giveBack(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent -= int64(n)
	if n > 0 {
		close(s.more)
		s.more = make(chan struct{})
	}
}

// allowedReader reads what the registry may send.
type allowedReader struct {
	ctx      context.Context
	registry *slowRegistry
	content  io.Reader
}

// Read implements io.Reader.
func (a *allowedReader) Read(p []byte) (int, error) {
	allowed, err := a.registry.take(a.ctx, len(p))
	if err != nil {
		return 0, err
	}
	n, err := a.content.Read(p[:allowed])
	a.registry.giveBack(allowed - n)
	return n, err
}
