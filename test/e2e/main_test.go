package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/podstream/podstream/test/devnode"
	shared "github.com/podstream/podstream/test/rig"
)

// nodes are the runtimes and binaries that the tests share.
var nodes *shared.Nodes

func TestMain(m *testing.M) {
	if attack := os.Getenv(attackEnv); attack != "" {
		os.Exit(attackMain(attack))
	}
	var err error
	if nodes, err = shared.NewNodes(os.Stderr); err != nil {
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

// onEachRuntime runs the test on containerd and on the simulated runtime.
func onEachRuntime(t *testing.T, test func(t *testing.T, node *devnode.Node)) {
	t.Run("containerd", func(t *testing.T) { test(t, startNode(t, devnode.Containerd)) })
	t.Run("sim", func(t *testing.T) { test(t, startNode(t, devnode.Sim)) })
}

// startNode returns the shared node of that runtime.
func startNode(t *testing.T, runtime devnode.Runtime) *devnode.Node {
	t.Helper()
	return shared.Need(t, func() (*devnode.Node, error) { return nodes.Node(runtime) })
}
