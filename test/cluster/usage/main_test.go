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

	"go.uber.org/goleak"

	"github.com/podstream/podstream/test/devnode"
)

// containerd says which containerd runs the pods.
var containerd = flag.String("containerd", "", "the `version` of containerd: 1.7 for the one in .tools; default: the one in PATH")

// kubelet is the reference for the tests: a kubelet of the control plane's version has the behaviour that they
// expect of Podstream.
var kubelet = flag.String("kubelet", "", "`program` of a kubelet, which is then the node in place of podconfigd and podexecd")

// here is the site that all tests share.
var here *site

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run runs the tests between the start and the end of the site.
func run(m *testing.M) (code int) {
	started := time.Now()
	if err := openSite(); err != nil {
		fmt.Fprintln(os.Stderr, "usage:", err)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, devnode.ErrUnavailable) {
			fmt.Fprintln(os.Stderr, "usage: make test-cluster builds the programs that this needs")
		}
		return 1
	}
	fmt.Printf("the cluster is up after %.0f s\n", time.Since(started).Seconds())
	code = m.Run()
	if err := here.close(); err != nil {
		fmt.Fprintln(os.Stderr, "usage:", err)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "usage:", err)
		code = 1
	}
	return code
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
	runtime := devnode.Containerd
	if *containerd == "1.7" {
		runtime = devnode.Containerd17
	}
	here, err = startSite(context.Background(), filepath.Join(root, ".tools"), runtime)
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns the value of a call, and ends the test if there is an error.
func get[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
