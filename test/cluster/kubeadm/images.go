package kubeadm

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
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// file is one file of an image: a copy of a file, or a link.
type file struct{ from, link string }

// programImage returns an image of the files, by their paths in it.
func programImage(files map[string]file, entrypoint ...string) (v1.Image, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		f := files[path]
		header := &tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Typeflag: tar.TypeSymlink, Linkname: f.link}
		var content []byte
		if f.link == "" {
			var err error
			if content, err = os.ReadFile(f.from); err != nil {
				return nil, err
			}
			header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
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
	config.Config.Entrypoint, config.Config.Env = entrypoint, []string{"PATH=/usr/local/bin:/usr/sbin"}
	return mutate.ConfigFile(image, config)
}

// iptables returns the machine's iptables, with its extensions and libraries, for kube-proxy.
func iptables(ctx context.Context) (map[string]file, error) {
	program, err := exec.LookPath("iptables")
	if err != nil {
		return nil, err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return nil, err
	}
	files := map[string]file{program: {from: program}}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			files["/usr/sbin/"+family+suffix] = file{link: program}
		}
	}
	extensions, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil || len(extensions) == 0 {
		return nil, fmt.Errorf("iptables has no extensions: %w", err)
	}
	for _, extension := range extensions {
		if real, err := filepath.EvalSymlinks(extension); err == nil && real != extension {
			files[extension] = file{link: filepath.Base(real)}
			extension = real
		}
		files[extension] = file{from: extension}
	}
	output, err := exec.CommandContext(ctx, "ldd", append([]string{program}, extensions...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd: %w", err)
	}
	for field := range strings.FieldsSeq(string(output)) {
		if strings.HasPrefix(field, "/") && strings.Contains(field, ".so") && !strings.HasSuffix(field, ":") {
			files[field] = file{from: field}
		}
	}
	return files, nil
}

// writeImages writes an archive with all images that kubeadm's manifests name, and sampleImage, from the programs in tools.
func writeImages(ctx context.Context, path, tools, sample string, names []string) error {
	proxy, err := iptables(ctx)
	if err != nil {
		return err
	}
	images := map[name.Reference]v1.Image{}
	for _, full := range append(names, sampleImage) {
		tag, err := name.NewTag(full)
		if err != nil {
			return err
		}
		program := filepath.Base(tag.RepositoryStr())
		files, entrypoint := map[string]file{}, []string(nil)
		switch program {
		case "kube-proxy":
			files = proxy
		case "pause":
			files["/pause"], entrypoint = file{from: sample}, []string{"/pause", "pause"}
		case "sample":
			files["/sample"], entrypoint = file{from: sample}, []string{"/sample"}
		case "coredns":
			files["/coredns"], entrypoint = file{from: filepath.Join(tools, "coredns")}, []string{"/coredns"}
		}
		if entrypoint == nil {
			files["/usr/local/bin/"+program] = file{from: filepath.Join(tools, program)}
		}
		if images[tag], err = programImage(files, entrypoint...); err != nil {
			return fmt.Errorf("image %s: %w", full, err)
		}
	}
	return tarball.MultiRefWriteToFile(path, images)
}
