package sidebyside

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podstream/podstream/test/cluster/nodes"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// toolsImage is the image of the pods: with a shell, tar, and files that the documented commands name.
const toolsImage = "localhost/podstream-documented:dev"

// here is the site of the test.
var here site

// site is a cluster with one node.
type site struct {
	*nodes.Cluster
	dir, tools string
	machine    *devnode.Node
	node       *nodes.Node
	// images are those of the machine.
	images map[string]v1.Image
}

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, start, func() error { return here.close() }))
}

// start starts the site from the module's root, where its programs are built, and where devnode looks for containerd.
func start() error {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	here.tools = filepath.Join(root, ".tools")
	err = here.start(context.Background())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, devnode.ErrUnavailable) {
		err = fmt.Errorf("%w\nmake test-side-by-side provides what this needs", err)
	}
	if err != nil {
		return errors.Join(err, here.close())
	}
	return nil
}

func (s *site) start(ctx context.Context) (err error) {
	for _, name := range []string{"crictl", "kubectl"} {
		if _, err := os.Stat(filepath.Join(s.tools, name)); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath("podman"); err != nil {
		return errors.Join(err, fs.ErrNotExist)
	}
	if s.dir, err = os.MkdirTemp("", "side"); err != nil { // short, because it has sockets
		return err
	}
	// Root in a pod with its own users is another user on the node.
	if err := os.Chmod(s.dir, 0o711); err != nil {
		return err
	}
	s.Cluster, err = nodes.Start(ctx, nodes.Config{Dir: s.dir, Tools: s.tools, Runtime: devnode.Containerd2, Bare: true, Log: os.Stderr})
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.BinDir()+"/", "./cmd/podctl")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build podctl: %w\n%s", err, output)
	}
	if s.machine, err = s.NewMachine(ctx, "machine"); err != nil {
		return err
	}
	if err := s.importImages(ctx); err != nil {
		return err
	}
	s.node = s.NewNode(s.machine, "main")
	s.node.PodconfigdFlags = []string{"--applied"}
	if err := s.node.Launch(); err != nil {
		return err
	}
	return s.node.AwaitReady(ctx)
}

// importImages imports the image of the pods, and keeps all images of the machine for podman.
func (s *site) importImages(ctx context.Context) error {
	image, err := devnode.BuildSampleImage(filepath.Join(s.BinDir(), "sample"))
	if err != nil {
		return err
	}
	if image, err = devnode.WithTools(ctx, image); err != nil {
		return err
	}
	image, err = devnode.WithFiles(image, map[string]devnode.File{
		"bin/date":     {Content: []byte("#!/bin/sh\necho today\n"), Mode: 0o755},
		"bin/psql":     {Content: []byte("#!/bin/sh\nexec cat\n"), Mode: 0o755},
		"bin/test":     {Content: []byte("#!/bin/sh\ntest \"$@\"\n"), Mode: 0o755}, // kubectl cp asks for directories with it
		"etc/app.conf": {Content: []byte("color = blue\n"), Mode: 0o644},
		"srv/":         {Mode: 0o755},
	})
	if err != nil {
		return err
	}
	if err := s.machine.ImportImages(ctx, map[string]v1.Image{toolsImage: image}); err != nil {
		return err
	}
	s.images = map[string]v1.Image{toolsImage: image}
	// These two are on each machine.
	for name, entrypoint := range map[string][]string{devnode.SampleImage: nil, devnode.PauseImage: {"pause"}} {
		if s.images[name], err = devnode.BuildSampleImage(filepath.Join(s.BinDir(), "sample"), entrypoint...); err != nil {
			return err
		}
	}
	return nil
}

// close ends everything, the machine first, because its daemons need the server.
func (s *site) close() error {
	var errs []error
	if s.machine != nil {
		errs = append(errs, s.machine.Close())
	}
	if s.Cluster != nil {
		s.Close()
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
