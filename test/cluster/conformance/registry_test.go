package conformance

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// registryHost is the registry whose images the specs use.
const registryHost = "registry.k8s.io"

// serveImages makes the machine's containerd pull the images of registry.k8s.io from a registry of this
// process. It returns their names. more are images besides those that all specs have.
func serveImages(t *testing.T, machine *devnode.Node, nodeShell, sample string, more map[string]contents) (names []string) {
	t.Helper()
	store := registry{}
	for name, image := range rig.Get(buildImages(t.Context(), nodeShell, sample, more))(t) {
		rig.Must(t, store.add(name, image))
		names = append(names, registryHost+"/"+name)
	}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	rig.Must(t, os.MkdirAll(machine.Path("registries", registryHost), 0o755))
	hosts := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", server.URL, server.URL)
	rig.Must(t, os.WriteFile(machine.Path("registries", registryHost, "hosts.toml"), []byte(hosts), 0o644))
	return names
}

// registry has the objects that it serves, by their references: a manifest by its tag, and everything else by
// digests.
type registry map[string]object

type object struct {
	mediaType, digest string
	content           []byte
}

func (r registry) add(name string, image v1.Image) error {
	objects, err := objectsOf(image)
	if err != nil {
		return fmt.Errorf("serve %s: %w", name, err)
	}
	for _, o := range objects {
		r[o.digest] = o
	}
	r[name] = objects[0]
	return nil
}

// objectsOf returns an image's manifest, configuration and layers, in this order.
func objectsOf(image v1.Image) ([]object, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	raw, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	objects := []object{
		{string(manifest.MediaType), digest.String(), raw},
		{string(manifest.Config.MediaType), manifest.Config.Digest.String(), config},
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for i, layer := range layers {
		reader, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		if err := reader.Close(); err != nil {
			return nil, err
		}
		objects = append(objects, object{string(manifest.Layers[i].MediaType), manifest.Layers[i].Digest.String(), content})
	}
	return objects, nil
}

// ServeHTTP answers a runtime's pull requests.
func (r registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	path := strings.TrimPrefix(request.URL.Path, "/v2/")
	repository, reference, found := strings.Cut(path, "/manifests/")
	if !found {
		repository, reference, found = strings.Cut(path, "/blobs/")
	}
	o, has := r[reference]
	if !has {
		o, has = r[repository+":"+reference]
	}
	if !found || !has {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", o.mediaType)
	w.Header().Set("Docker-Content-Digest", o.digest)
	w.Header().Set("Content-Length", strconv.Itoa(len(o.content)))
	if request.Method != http.MethodHead {
		_, _ = w.Write(o.content) // an error means that the client is gone
	}
}
