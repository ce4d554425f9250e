package devnode

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// tools are the programs of WithTools, at their paths on the machine.
var tools = []string{"/bin/sh", "/bin/tar", "/bin/cat", "/bin/ls"}

// WithTools returns the image with programs that kubectl cp, podctl cp and users expect: the machine's shell, tar, cat
// and ls, with the libraries that they are linked with. They are in the PATH. Every user may write to /tmp.
func WithTools(ctx context.Context, image v1.Image) (v1.Image, error) {
	files := map[string]File{"tmp/": {Mode: 0o1777}, "etc/": {Mode: 0o1777}}
	for _, tool := range tools {
		output, err := exec.CommandContext(ctx, "ldd", tool).Output()
		if err != nil {
			return nil, fmt.Errorf("find the libraries of %s: %w", tool, err)
		}
		for _, path := range append(strings.Fields(string(output)), tool) {
			if !strings.HasPrefix(path, "/") {
				continue
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files[path[1:]] = File{Content: content, Mode: 0o755}
		}
	}
	image, err := WithFiles(image, files)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Env = []string{"PATH=/bin:/"}
	return mutate.ConfigFile(image, config)
}

// File is a file of WithFiles.
type File struct {
	Content []byte
	// Mode has the bits of tar.
	Mode int64
}

// WithFiles returns the image with further files, by their names without the first slash; those of directories end with
// one.
func WithFiles(image v1.Image, files map[string]File) (v1.Image, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		h := &tar.Header{Name: name, Mode: f.Mode, Size: int64(len(f.Content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		errs = append(errs, w.WriteHeader(h))
		_, err := w.Write(f.Content)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		return nil, fmt.Errorf("build a layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}
