package world

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// nodes are the nodes that the tests run on, each in a separate network namespace.
var nodes testNodes

type testNodes struct {
	// binaries has the binaries of the daemons, and of guest.
	binaries *rig.Nodes

	mu      sync.Mutex
	started []*devnode.Node
}

// build builds the binaries.
func (n *testNodes) build() (err error) {
	if n.binaries, err = rig.NewNodes(os.Stderr); err != nil {
		return err
	}
	if err := n.binaries.BuildStatic("./test/world/guest"); err != nil {
		return errors.Join(err, n.close())
	}
	return nil
}

// guest returns the path of the program guest.
func (n *testNodes) guest() string { return filepath.Join(n.binaries.BinDir, "guest") }

var sharedNodes = map[devnode.Runtime]func() (*devnode.Node, error){
	devnode.Containerd2:  sync.OnceValues(func() (*devnode.Node, error) { return nodes.start(devnode.Containerd2) }),
	devnode.Containerd17: sync.OnceValues(func() (*devnode.Node, error) { return nodes.start(devnode.Containerd17) }),
}

// shared returns the shared node with that runtime.
func (*testNodes) shared(kind devnode.Runtime) (*devnode.Node, error) { return sharedNodes[kind]() }

// start starts another node.
func (n *testNodes) start(kind devnode.Runtime) (*devnode.Node, error) {
	dir, err := n.binaries.NewDir()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	node, err := devnode.Start(ctx, devnode.Config{
		Dir: dir, Runtime: kind, BinDir: n.binaries.BinDir, NetworkNamespace: true, Log: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.started = append(n.started, node)
	return node, nil
}

// close closes the remaining nodes, and removes the binaries.
func (n *testNodes) close() error {
	var errs []error
	for _, node := range n.started {
		errs = append(errs, node.Close())
	}
	return errors.Join(append(errs, n.binaries.Close())...)
}
