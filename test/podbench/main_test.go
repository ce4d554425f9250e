package podbench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/test/devnode"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built != "" {
			_ = os.RemoveAll(built)
		}
		os.Exit(code)
	}))
}

// built is the directory of the daemons, once they are built.
var built string

// binaries builds the daemons as they are shipped, at the first call.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "podbench")
	if err != nil {
		return "", err
	}
	built = dir
	cmd := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-o", dir+"/", "./cmd/podconfigd", "./cmd/podexecd")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the daemons: %w\n%s", err, out)
	}
	return dir, nil
})

// runtimes are the runtimes of the benchmarks.
var runtimes = []struct {
	name    string
	runtime devnode.Runtime
}{
	{"containerd-2", devnode.Containerd2},
	{"containerd-1.7", devnode.Containerd17},
}

// startNode starts a node that ends with the benchmark.
func startNode(b *testing.B, runtime devnode.Runtime) *devnode.Node {
	b.Helper()
	return startNodeOf(b, runtime, "")
}

// startNodeOf starts a node with the programs in the directory bin, "" for those of this tree.
func startNodeOf(b *testing.B, runtime devnode.Runtime, bin string) *devnode.Node {
	b.Helper()
	if bin == "" {
		var err error
		if bin, err = binaries(); err != nil {
			b.Fatal(err)
		}
	}
	config := devnode.Config{Runtime: runtime, BinDir: bin}
	if err := devnode.Check(config); err != nil {
		b.Skipf("%v; `make bench-pods` installs what is missing", err)
	}
	config.Dir = newDisk(b)
	node, err := devnode.Start(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := node.Close(); err != nil {
			b.Error(err)
		}
	})
	return node
}
