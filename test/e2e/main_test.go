package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/podstream/podstream/test/devnode"
	shared "github.com/podstream/podstream/test/rig"
)

// atOnce is how many tests run at a time: one on each runtime.
const atOnce = 3

// nodes are the runtimes and binaries that the tests share.
var nodes *shared.Nodes

func TestMain(m *testing.M) {
	if attack := os.Getenv(attackEnv); attack != "" {
		os.Exit(attackMain(attack))
	}
	flag.Parse()
	err := shared.Parallel(atOnce)
	if err == nil {
		nodes, err = shared.NewNodes(os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := nodes.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// onEachRuntime runs the test on both versions of containerd and on the simulated runtime. In the race detector's runs
// one containerd is enough.
func onEachRuntime(t *testing.T, test func(t *testing.T, node *devnode.Node)) {
	t.Helper()
	for name, kind := range map[string]devnode.Runtime{
		"containerd-1.7": devnode.Containerd17, "containerd-2": devnode.Containerd2, "sim": devnode.Sim,
	} {
		if shared.Raced && kind == devnode.Containerd17 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startNode(t, kind))
		})
	}
}

// startNode returns the shared node of that runtime.
func startNode(t *testing.T, runtime devnode.Runtime) *devnode.Node {
	t.Helper()
	return shared.Need(t, func() (*devnode.Node, error) { return nodes.Node(runtime) })
}
