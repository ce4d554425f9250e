package ocitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

const (
	// ManifestType is the media type of an image's manifest.
	ManifestType = "application/vnd.oci.image.manifest.v1+json"
	// IndexType is the media type of an index.
	IndexType = "application/vnd.oci.image.index.v1+json"
	// FluxType is the media type of a layer of flux.
	FluxType = "application/vnd.cncf.flux.content.v1.tar+gzip"
	// emptyType is that of an empty configuration.
	emptyType = "application/vnd.oci.empty.v1+json"
)

// Descriptor is one of OCI.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Platform     map[string]string `json:"platform,omitempty"`
}

// Manifest is one of an image or an index.
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        *Descriptor       `json:"config,omitempty"`
	Layers        []Descriptor      `json:"layers,omitempty"`
	Manifests     []Descriptor      `json:"manifests,omitempty"`
	Subject       *Descriptor       `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Encode returns the manifest as JSON.
func (m Manifest) Encode(t testing.TB) []byte {
	t.Helper()
	m.SchemaVersion = 2
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Pod returns the manifest of a pod.
func Pod(name, image string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: main, image: %s}]}}\n", name, image)
}

// Archive returns files as a tar archive with gzip.
func Archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// ManifestOf returns the manifest of an artifact with one layer, whose blob it adds. A zero time means that the manifest
// doesn't say when it was created.
func (h *Hub) ManifestOf(repository string, layer []byte, created time.Time) []byte {
	h.t.Helper()
	m := Manifest{
		MediaType: ManifestType, Config: h.emptyConfig(repository),
		Layers: []Descriptor{{MediaType: FluxType, Digest: h.PutBlob(repository, layer), Size: int64(len(layer))}},
	}
	if !created.IsZero() {
		m.Annotations = map[string]string{"org.opencontainers.image.created": created.UTC().Format(time.RFC3339)}
	}
	return m.Encode(h.t)
}

func (h *Hub) emptyConfig(repository string) *Descriptor {
	return &Descriptor{MediaType: emptyType, Digest: h.PutBlob(repository, []byte("{}")), Size: 2}
}

// Push pushes files as flux does, and returns the digest.
func (h *Hub) Push(repository, tag string, created time.Time, files map[string]string) (digest string) {
	h.t.Helper()
	return h.PutManifest(repository, tag, ManifestType, h.ManifestOf(repository, Archive(h.t, files), created))
}
