package devnode

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BuildSampleImage returns an image whose only file is /sample, the program in binary. Its entrypoint is /sample with
// the given arguments. Equal arguments give an equal image.
func BuildSampleImage(binary string, entrypoint ...string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{Name: "sample", Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = append([]string{"/sample"}, entrypoint...)
	return mutate.ConfigFile(image, config)
}

// importSampleImages builds the two images of every node and imports them. With Endpoint, the runtime may already have
// them.
func (n *Node) importSampleImages(ctx context.Context) error {
	if n.config.SkipImages {
		return nil
	}
	return n.step("importing the sample images", func() error {
		if n.config.Runtime == Endpoint && n.hasImages(ctx, SampleImage) == nil {
			return nil
		}
		binary, err := n.binary(ctx, "sample")
		if err != nil {
			return err
		}
		sample, err := BuildSampleImage(binary)
		if err != nil {
			return fmt.Errorf("build %s: %w", SampleImage, err)
		}
		pause, err := BuildSampleImage(binary, "pause")
		if err != nil {
			return fmt.Errorf("build %s: %w", PauseImage, err)
		}
		return n.ImportImages(ctx, map[string]v1.Image{SampleImage: sample, PauseImage: pause})
	})
}

// ImportImages imports images into containerd, each under the full name that is its key, and returns when CRI lists
// them. An image that had the name before loses it.
func (n *Node) ImportImages(ctx context.Context, images map[string]v1.Image) error {
	ctr, err := findTool(n.config, "ctr")
	if err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	tagged := make(map[name.Tag]v1.Image, len(images))
	names := make([]string, 0, len(images))
	for ref, image := range images {
		tag, err := name.NewTag(ref)
		if err != nil {
			return fmt.Errorf("import images: %w", err)
		}
		tagged[tag] = image
		names = append(names, ref)
	}
	archive := filepath.Join(n.dir, "images.tar")
	if err := tarball.MultiWriteToFile(archive, tagged); err != nil {
		return fmt.Errorf("import images: write %s: %w", archive, err)
	}
	defer os.Remove(archive) // if that fails, Close removes it with the directory
	args := []string{"--address", strings.TrimPrefix(n.endpoint, "unix://"), "--namespace", criNamespace, "images", "import", archive}
	if output, err := exec.CommandContext(ctx, ctr, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("import images: ctr: %w\n%s", err, output)
	}
	// CRI receives an event for a new image some time after the import.
	return until(ctx, n.runtime, "imported images to show", func(ctx context.Context) error { return n.hasImages(ctx, names...) })
}

// hasImages returns nil if CRI has all the images.
func (n *Node) hasImages(ctx context.Context, names ...string) error {
	conn, err := dial(n.endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := runtimeapi.NewImageServiceClient(conn)
	for _, ref := range names {
		request := &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}}
		response, err := client.ImageStatus(ctx, request)
		if err != nil {
			return err
		}
		if response.GetImage() == nil {
			return fmt.Errorf("no image %s", ref)
		}
	}
	return nil
}
