package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// startTimeout bounds the start of a runtime on a busy machine.
const startTimeout = 2 * time.Minute

// Nodes are the runtimes that the tests of a run share.
type Nodes struct {
	// BinDir holds podconfigd, podexecd, podctl, kubelet, simruntimed and the sample program.
	BinDir string

	dir string
	log io.Writer

	started atomic.Int32

	mu    sync.Mutex
	nodes map[devnode.Runtime]*node
}

type node struct {
	once sync.Once
	node *devnode.Node
	err  error
}

// builtVariable names the directory with the binaries, if they are already built: in a guest without Go.
const builtVariable = "PODSTREAM_BIN_DIR"

// NewNodes builds the binaries with the go command, unless they are already built. The daemons have the race detector
// if the test has it. The working directory must be a
// package directory directly in test/. log gets a line for each slow step.
func NewNodes(log io.Writer) (*Nodes, error) {
	dir, err := newDir("")
	if err != nil {
		return nil, err
	}
	n := &Nodes{BinDir: filepath.Join(dir, "bin"), dir: dir, log: log, nodes: map[devnode.Runtime]*node{}}
	if built := os.Getenv(builtVariable); built != "" {
		n.BinDir = built
		return n, nil
	}
	var flags []string
	if Raced {
		flags = append(flags, "-race")
	}
	err = errors.Join(
		n.build(nil, append(flags, "./cmd/podconfigd", "./cmd/podexecd", "./cmd/podctl", "./cmd/kubelet", "./internal/simruntime/simruntimed")...),
		n.BuildStatic("./test/sample"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return n, nil
}

// BuildStatic builds a program for an image that contains no other file. It does nothing if the binaries are already
// built.
func (n *Nodes) BuildStatic(pkg string) error {
	if os.Getenv(builtVariable) != "" {
		return nil
	}
	return n.build([]string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags=-s -w", pkg)
}

// NewDir makes an empty directory, which Close removes.
func (n *Nodes) NewDir() (string, error) { return newDir(n.dir) }

// newDir makes a directory that every user can pass through: the root file systems of containers are in it, and root in
// a pod with its own users is another user on the node.
func newDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "rig")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

func (n *Nodes) build(env []string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", n.BinDir + "/"}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	return nil
}

// Node returns the shared node with that runtime, which the first call starts. If the start fails, all later calls
// return the same error. It is devnode.ErrUnavailable if the machine can't run this runtime.
func (n *Nodes) Node(runtime devnode.Runtime) (*devnode.Node, error) {
	n.mu.Lock()
	shared := n.nodes[runtime]
	if shared == nil {
		shared = &node{}
		n.nodes[runtime] = shared
	}
	n.mu.Unlock()
	shared.once.Do(func() { shared.node, shared.err = n.New(runtime) })
	return shared.node, shared.err
}

// New starts another node with that runtime. The caller must close it.
func (n *Nodes) New(runtime devnode.Runtime) (*devnode.Node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return devnode.Start(ctx, devnode.Config{
		Dir: filepath.Join(n.dir, fmt.Sprintf("node%d", n.started.Add(1))), Runtime: runtime, BinDir: n.BinDir, Log: n.log,
	})
}

// Close ends the nodes, with all daemons and pods on them, and removes their directories and the binaries. No other
// call may be in progress. It returns an error if the race detector has found a race in a daemon.
func (n *Nodes) Close() error {
	var errs []error
	for runtime, shared := range n.nodes {
		if shared.node == nil {
			continue
		}
		if err := shared.node.Close(); err != nil {
			errs = append(errs, fmt.Errorf("node of runtime %d: %w", runtime, err))
		}
	}
	return errors.Join(append(errs, n.races(), os.RemoveAll(n.dir))...)
}

// races returns the race detector's first report of each daemon, from the logs that the nodes leave.
func (n *Nodes) races() error {
	logs, err := filepath.Glob(filepath.Join(n.dir, "*", "log", "*.log"))
	errs := []error{err}
	for _, path := range logs {
		log, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
		}
		if at := bytes.Index(log, []byte("WARNING: DATA RACE")); at >= 0 {
			errs = append(errs, fmt.Errorf("%s has a race:\n%s", filepath.Base(path), log[at:min(len(log), at+8<<10)]))
		}
	}
	return errors.Join(errs...)
}
