package usage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/podstream/podstream/test/devnode"
)

// The images of the pods.
const (
	// sampleImage is test/sample. nextImage is a later version of it, with another value in its environment.
	sampleImage = devnode.SampleImage
	nextImage   = "localhost/podstream-sample:next"
	// toolsImage has the programs that kubectl cp and users expect: the machine's shell, tar, cat and ls,
	// besides /sample.
	toolsImage = "localhost/podstream-tools:dev"
)

// tools are the programs of toolsImage, at their paths on the machine.
var tools = []string{"/bin/sh", "/bin/tar", "/bin/cat", "/bin/ls"}

// importImages builds the images that devnode doesn't have.
func importImages(ctx context.Context, machine *devnode.Node, sample string) error {
	image, err := devnode.BuildSampleImage(sample)
	if err != nil {
		return err
	}
	next, err := withEnv(image, "SAMPLE_VERSION=next")
	if err != nil {
		return err
	}
	layer, err := toolsLayer(ctx)
	if err != nil {
		return err
	}
	with, err := mutate.AppendLayers(image, layer)
	if err != nil {
		return err
	}
	if with, err = withEnv(with, "PATH=/bin:/"); err != nil {
		return err
	}
	return machine.ImportImages(ctx, map[string]v1.Image{nextImage: next, toolsImage: with})
}

func withEnv(image v1.Image, env ...string) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Env = env
	return mutate.ConfigFile(image, config)
}

// toolsLayer returns a layer with the tools, and the libraries that they are linked with.
func toolsLayer(ctx context.Context) (v1.Layer, error) {
	paths := map[string]bool{}
	for _, tool := range tools {
		paths[tool] = true
		output, err := exec.CommandContext(ctx, "ldd", tool).Output()
		if err != nil {
			return nil, fmt.Errorf("find the libraries of %s: %w", tool, err)
		}
		for field := range strings.FieldsSeq(string(output)) {
			if strings.HasPrefix(field, "/") {
				paths[field] = true
			}
		}
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	var errs []error
	for path := range paths {
		content, err := os.ReadFile(path)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: path[1:], Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
		}
		if err == nil {
			_, err = w.Write(content)
		}
		errs = append(errs, err)
	}
	// The minimum of a file system. Every user may write to /tmp.
	for _, dir := range []string{"tmp/", "etc/"} {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: dir, Mode: 0o1777, Typeflag: tar.TypeDir}))
	}
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		return nil, fmt.Errorf("build %s: %w", toolsImage, err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
}
