package oci

import (
	"errors"
	"testing"

	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/oci/archive"
	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// fuzzed has one manifest, whatever its digest, and the same blob for each digest.
type fuzzed struct {
	t              *testing.T
	manifest, blob []byte
	packed         int64
}

func (f *fuzzed) Manifest(string) ([]byte, error) { return f.manifest, nil }

func (f *fuzzed) Blob(_ string, size int64) ([]byte, error) {
	if f.packed += size; size < 0 || f.packed > archive.MaxPacked {
		f.t.Fatalf("a layer of %d bytes is requested, %d in all", size, f.packed)
	}
	return f.blob, nil
}

// FuzzManifest: no manifest or index causes a panic, or the request of more than an artifact may have; an error has the words
// of this package.
func FuzzManifest(f *testing.F) {
	layer := ocitest.Archive(f, pods("web", "v1"))
	image := ocitest.Manifest{
		MediaType: ocitest.ManifestType, Config: &ocitest.Descriptor{}, Annotations: map[string]string{createdAnnotation: "2026-01-02T03:04:05Z"},
		Layers: []ocitest.Descriptor{{MediaType: ocitest.FluxType, Digest: ocitest.Digest(layer), Size: int64(len(layer))}},
	}
	index := ocitest.Manifest{MediaType: ocitest.IndexType, Manifests: []ocitest.Descriptor{{Digest: "x"}}}
	f.Add(image.Encode(f), layer)
	f.Add(index.Encode(f), layer)
	f.Fuzz(func(t *testing.T, manifest, blob []byte) {
		from := &fuzzed{t: t, manifest: manifest, blob: blob}
		a, err := readRoot(from, ocitest.Digest(manifest))
		if err == nil {
			_, _ = a.created()
			if err = a.readLayers(from); err == nil {
				_, err = a.unpack()
			}
		}
		var own fault.Error
		if err != nil && (!errors.As(err, &own) || len(own) > 400) {
			t.Fatalf("the error is %v", err)
		}
	})
}
