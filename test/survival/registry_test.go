package survival

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podstream/podstream/test/devnode"
)

// serveSample serves the sample image, and nothing else, from a registry on loopback, and returns the image's
// name there.
func serveSample(t *testing.T) string {
	t.Helper()
	image, err := devnode.BuildSampleImage(filepath.Join(binaries(t, "failpoints"), "sample"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		content, err := stored(image, path.Base(r.URL.Path))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			mediaType, _ := image.MediaType() // it has been read
			digest, _ := image.Digest()
			w.Header().Set("Content-Type", string(mediaType))
			w.Header().Set("Docker-Content-Digest", digest.String())
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/survival/sample:1"
}

// stored returns the blob that the registry has under a digest. Any other name returns the manifest.
func stored(image v1.Image, name string) ([]byte, error) {
	digest, err := v1.NewHash(name)
	if err != nil {
		return image.RawManifest()
	}
	if manifest, err := image.Digest(); err != nil || manifest == digest {
		return image.RawManifest()
	}
	if config, err := image.ConfigName(); err != nil || config == digest {
		return image.RawConfigFile()
	}
	layer, err := image.LayerByDigest(digest)
	if err != nil {
		return nil, err
	}
	content, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}
