package oci

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/oci/archive"
)

const (
	// ArtifactType is the type of an artifact that is certainly one of manifests, also if it has none.
	ArtifactType = "application/vnd.podstream.manifests.v1"
	// maxIndex is the maximum number of images in an index.
	maxIndex = 100

	createdAnnotation = "org.opencontainers.image.created"
	titleAnnotation   = "org.opencontainers.image.title"
	unpackAnnotation  = "io.deis.oras.content.unpack"
)

const (
	errManifest  fault.Error = "it is neither an image's manifest nor an index"
	errManyIndex fault.Error = "its index has more than 100 images"
	errPlatform  fault.Error = "its index hasn't exactly one image for this platform"
	errNested    fault.Error = "its index leads to another one"
	errSize      fault.Error = "the size of one of its layers isn't possible"
	errNone      fault.Error = "it has no manifest, a file .yaml, .yml or .json: if all pods are to go, push an artifact without files, " +
		"of the type " + ArtifactType
)

// descriptor is a reference to a manifest or a blob.
type descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType"`
	Annotations  map[string]string `json:"annotations"`
	Platform     *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// document is an image's manifest or an index, as far as it is read.
type document struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType"`
	Config       *descriptor       `json:"config"`
	Layers       []descriptor      `json:"layers"`
	Manifests    []descriptor      `json:"manifests"`
	Annotations  map[string]string `json:"annotations"`
}

// isIndex reports whether the document is an index. One that may be either isn't read.
func (d *document) isIndex() (bool, error) {
	index, image := strings.Contains(d.MediaType, "index") || strings.Contains(d.MediaType, "manifest.list"), d.Config != nil || d.Layers != nil
	switch {
	case index && !image, d.MediaType == "" && d.Manifests != nil && !image:
		return true, nil
	case !index && image && d.Manifests == nil:
		return false, nil
	}
	return false, errManifest
}

// parts has the manifests and blobs of a registry, or of the store. What it returns has the digest.
type parts interface {
	Manifest(digest string) ([]byte, error)
	Blob(digest string, size int64) ([]byte, error)
}

// artifact is one that is read, or is being read.
type artifact struct {
	digest string
	// root is what has the digest: a manifest or an index.
	root     []byte
	document document
	// parts are all bytes that were read, by their digests, and layers those of its image. Nil once they were stored and
	// unpacked.
	parts  map[string][]byte
	layers []archive.Layer
	// artifactType is the type of its image, once the layers were read.
	artifactType string
}

// readRoot reads the beginning of an artifact.
func readRoot(from parts, digest string) (*artifact, error) {
	root, err := from.Manifest(digest)
	if err != nil {
		return nil, err
	}
	a := &artifact{digest: digest, root: root, parts: map[string][]byte{digest: root}}
	a.document, err = parseDocument(root)
	return a, err
}

func parseDocument(data []byte) (document, error) {
	var d document
	if json.Unmarshal(data, &d) != nil {
		return d, errManifest
	}
	_, err := d.isIndex()
	return d, err
}

// created returns when the artifact was created; false: it doesn't say that.
func (a *artifact) created() (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, a.document.Annotations[createdAnnotation])
	return at, err == nil && !at.IsZero()
}

// readLayers reads the rest of the artifact, at most archive.MaxPacked.
func (a *artifact) readLayers(from parts) error {
	image, err := a.image(from)
	if err != nil {
		return err
	}
	var left int64 = archive.MaxPacked
	if len(image.Layers) > archive.MaxLayers {
		return archive.ErrLayers
	}
	for _, l := range image.Layers {
		if l.Size < 0 {
			return errSize
		}
		if left -= l.Size; left < 0 {
			return archive.ErrPacked
		}
	}
	for _, l := range image.Layers {
		data, err := from.Blob(l.Digest, l.Size)
		if err != nil {
			return err
		}
		a.parts[l.Digest] = data
		a.layers = append(a.layers, archive.Layer{
			MediaType: l.MediaType, Title: l.Annotations[titleAnnotation], Directory: l.Annotations[unpackAnnotation] == "true", Data: data,
		})
	}
	a.artifactType = image.ArtifactType
	return nil
}

// unpack returns the content of the layers.
func (a *artifact) unpack() (*archive.Content, error) {
	c, err := archive.Read(a.layers)
	if err == nil && len(c.Files) == 0 && a.artifactType != ArtifactType {
		err = errNone
	}
	return c, err
}

// image returns the artifact's image manifest: its root, or the one in its index.
func (a *artifact) image(from parts) (document, error) {
	if index, _ := a.document.isIndex(); !index {
		return a.document, nil
	}
	if len(a.document.Manifests) > maxIndex {
		return document{}, errManyIndex
	}
	fitting := slices.DeleteFunc(slices.Clone(a.document.Manifests), func(d descriptor) bool { return !d.fits() })
	if len(fitting) != 1 {
		return document{}, errPlatform
	}
	data, err := from.Manifest(fitting[0].Digest)
	if err != nil {
		return document{}, err
	}
	a.parts[fitting[0].Digest] = data
	d, err := parseDocument(data)
	if err != nil {
		return document{}, err
	}
	if index, _ := d.isIndex(); index {
		return document{}, errNested
	}
	return d, nil
}

// fits reports whether an image of an index is for this platform, or for no certain one.
func (d descriptor) fits() bool {
	return d.Platform == nil || d.Platform.OS == "" || d.Platform.OS == runtime.GOOS && d.Platform.Architecture == runtime.GOARCH
}
