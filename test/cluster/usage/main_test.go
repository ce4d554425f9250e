package usage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// containerd says which containerd runs the pods.
var containerd = flag.String("containerd", "2", "the `version` of containerd, 1.7 or 2")

// kubelet is the reference for the tests: a kubelet of the control plane's version has the behaviour that they
// expect of Podstream.
var kubelet = flag.String("kubelet", "", "`program` of a kubelet, which is then the node in place of podconfigd and podexecd")

// here is the site that all tests share.
var here *site

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, start, func() error { return here.close() }))
}

func start() error {
	started := time.Now()
	err := openSite()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, devnode.ErrUnavailable) {
		err = fmt.Errorf("%w\nmake test-cluster provides what this needs", err)
	}
	if err == nil {
		fmt.Printf("the cluster is up after %.0f s\n", time.Since(started).Seconds())
	}
	return err
}

// openSite starts the site from the module's root, where its programs are built, and where devnode looks for
// containerd.
func openSite() error {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	runtime, err := devnode.ContainerdOf(*containerd)
	if err != nil {
		return err
	}
	here, err = startSite(context.Background(), filepath.Join(root, ".tools"), runtime)
	return err
}
