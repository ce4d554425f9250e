package archive

import (
	"errors"
	"io"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/fault"
)

const (
	// MaxPacked is the maximum size of all layers of an artifact, as they are sent, in bytes.
	MaxPacked = 10 << 20
	// MaxLayers is the maximum number of layers.
	MaxLayers = 32
	// maxUnpacked is the maximum size of all layers unpacked, with the headers of tar.
	maxUnpacked = 32 << 20
	// maxRatio is how many times larger than its packed size a layer may be, beyond ratioFloor. YAML has a ratio of 20
	// at most, unless it is one manifest many times.
	maxRatio, ratioFloor = 100, 1 << 20
	// maxEntries is the maximum number of entries of all archives, and maxFiles that of manifests.
	maxEntries, maxFiles = 10_000, 2_000
	// maxName and maxDepth bound a file's path, in bytes and elements.
	maxName, maxDepth = 255, 16
	// maxIgnored is how many names of ignored files are returned.
	maxIgnored = 20
	// maxManifest is the maximum size of a manifest, in bytes.
	maxManifest = manifest.MaxSize
)

// Errors of an artifact that is too large, which may be found before its layers are read.
const (
	ErrLayers fault.Error = "it has more than 32 layers"
	ErrPacked fault.Error = "its layers are larger than 10 MiB"
)

const (
	errTooLarge  fault.Error = "its layers are larger than 32 MiB unpacked"
	errRatio     fault.Error = "one of its layers is more than 100 times larger unpacked: it may be a decompression bomb"
	errEntries   fault.Error = "its archives have more than 10000 entries"
	errFiles     fault.Error = "it has more than 2000 manifests"
	errNotTar    fault.Error = "one of its layers isn't a complete tar archive"
	errZstd      fault.Error = "one of its layers is compressed by zstd; only gzip is read"
	errLargeFile fault.Error = "one of its manifests is larger than 10 MiB"
)

// meter counts the unpacked bytes of one layer, and returns an error once there are too many.
type meter struct {
	io.Reader
	// left is what all layers may still have, and own what this one may have by its ratio.
	left *int64
	own  int64
}

// newMeter returns a meter for a layer of a packed size.
func newMeter(r io.Reader, packed int, left *int64) *meter {
	return &meter{Reader: r, left: left, own: max(ratioFloor, maxRatio*int64(packed))}
}

// Read is part of io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	*m.left -= int64(n)
	m.own -= int64(n)
	switch {
	case *m.left < 0:
		return n, errTooLarge
	case m.own < 0:
		return n, errRatio
	}
	return n, err
}

// asFault returns the error of a reader of tar or gzip in the words of this package.
func asFault(err error) error {
	var own fault.Error
	if errors.As(err, &own) {
		return own
	}
	return errNotTar
}
