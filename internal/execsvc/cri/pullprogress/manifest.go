package pullprogress

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
)

// The bounds of a manifest. No snapshotter can mount more than a few hundred layers.
const (
	maxManifestBytes = 4 << 20
	maxLayers        = 1000
)

// manifest has the layers of an image, each digest once.
type manifest []layer

type layer struct {
	digest string
	// size is the stated size; it isn't negative.
	size int64
}

var digestPattern = regexp.MustCompile(`^sha(?:256|384|512):[0-9a-f]{64,128}$`)

// parseManifest reads an OCI or Docker manifest of one image.
func parseManifest(data []byte) (manifest, error) {
	var content struct {
		Layers []struct {
			Digest string `json:"digest"`
			Size   int64  `json:"size"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("not a manifest: %w", err)
	}
	if len(content.Layers) == 0 {
		return nil, errors.New("not the manifest of an image: it has no layers")
	}
	if n := len(content.Layers); n > maxLayers {
		return nil, fmt.Errorf("it has %d layers, and at most %d are looked at", n, maxLayers)
	}
	var m manifest
	seen := map[string]bool{}
	for i, l := range content.Layers {
		if !digestPattern.MatchString(l.Digest) || l.Size < 0 {
			return nil, fmt.Errorf("layer %d has no valid digest and size", i)
		}
		if !seen[l.Digest] {
			seen[l.Digest] = true
			m = append(m, layer{l.Digest, l.Size})
		}
	}
	return m, nil
}

// plus returns the sum of numbers that aren't negative, or the largest number.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
