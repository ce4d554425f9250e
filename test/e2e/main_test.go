package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// requireRuntime is set by `make test`: a machine that can't run containerd fails then instead of skipping.
const requireRuntime = "PODSTREAM_REQUIRE_RUNTIME"

// nodes are the runtimes that the tests share, started when first asked for.
var nodes = map[devnode.Runtime]*lazyNode{devnode.Containerd: {}, devnode.Sim: {}}

type lazyNode struct {
	once sync.Once
	node *devnode.Node
	err  error
}

// binDir holds the binaries, built once.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "e2e")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binDir = filepath.Join(dir, "bin")
		if err := build(binDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		for runtime, l := range nodes {
			if l.node == nil {
				continue
			}
			if err := l.node.Close(); err != nil {
				fmt.Fprintf(os.Stderr, "close the node of runtime %d: %v\n", runtime, err)
				code = 1
			}
		}
		return code
	}())
}

func build(dir string) error {
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/podconfigd", "./cmd/podexecd", "./cmd/podctl", "./internal/simruntime/simruntimed")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	return nil
}

// onEachRuntime runs the test on containerd and on the simulated runtime.
func onEachRuntime(t *testing.T, test func(t *testing.T, node *devnode.Node)) {
	t.Run("containerd", func(t *testing.T) { test(t, startNode(t, devnode.Containerd)) })
	t.Run("sim", func(t *testing.T) { test(t, startNode(t, devnode.Sim)) })
}

// startNode is the shared node of that runtime.
func startNode(t *testing.T, runtime devnode.Runtime) *devnode.Node {
	t.Helper()
	l := nodes[runtime]
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		l.node, l.err = devnode.Start(ctx, devnode.Config{
			Dir: filepath.Join(filepath.Dir(binDir), fmt.Sprintf("node%d", runtime)), Runtime: runtime, BinDir: binDir, Log: os.Stderr,
		})
	})
	if errors.Is(l.err, devnode.ErrUnavailable) && os.Getenv(requireRuntime) == "" {
		t.Skipf("%v; `make test` installs what is missing", l.err)
	}
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.node
}
