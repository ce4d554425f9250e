package devnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// lockFile marks a directory as a node's, and is locked by the process that uses it. It stays, because a lock on a
	// removed file would not exclude other processes.
	lockFile = "devnode.lock"
	// logDir stays after Close.
	logDir = "log"
	// socketLink points to the directory of the sockets if that isn't Dir itself.
	socketLink = "sockets"
	// maxSocketName is the longest file name that Socket accepts, with containerd's suffix ".ttrpc".
	maxSocketName = 32
	// maxSocketPath is the size of the path in a sockaddr_un, without the terminating zero.
	maxSocketPath = 107
)

// Node is a running node. It is safe for concurrent use.
type Node struct {
	config    Config
	dir       string // absolute, without symbolic links
	socketDir string
	endpoint  string
	lock      *os.File
	network   network
	runtime   *Process // nil for Endpoint

	logMu   sync.Mutex
	buildMu sync.Mutex

	mu        sync.Mutex
	processes []*Process // in the order of their starts
	closed    bool
}

// Start starts a node. It clears the rest of a killed node in the directory, starts the runtime, imports the images,
// and returns when the runtime answers and has its network. If it fails, nothing is left. ctx bounds only the start.
func Start(ctx context.Context, config Config) (*Node, error) {
	if err := Check(config); err != nil {
		return nil, err
	}
	n := &Node{config: config}
	err := n.claimDir()
	if err == nil {
		err = n.startRuntime(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start devnode: %w", err), n.Close())
	}
	return n, nil
}

// claimDir locks the directory for this node, and clears it except for the logs.
func (n *Node) claimDir() error {
	if n.config.Dir == "" {
		return errors.New("no directory given")
	}
	if err := os.MkdirAll(n.config.Dir, 0o755); err != nil {
		return err
	}
	// The mount table has paths without symbolic links.
	dir, err := filepath.EvalSymlinks(n.config.Dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := checkUsable(dir); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("a make run in another terminal, or a test")
		}
		return errors.Join(fmt.Errorf("%s is in use by another process: %w", dir, err), lock.Close())
	}
	n.dir, n.lock = dir, lock
	if err := n.step("clearing the rest of an earlier run", n.clear); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, logDir), 0o755); err != nil {
		return err
	}
	return n.makeSocketDir()
}

// checkUsable rejects a directory with foreign content, because Close would remove it.
func checkUsable(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == lockFile {
			return nil
		}
	}
	for _, entry := range entries {
		if entry.Name() != logDir { // the only entry that Close keeps besides the lock
			return fmt.Errorf("%s is not empty and wasn't made by devnode", dir)
		}
	}
	return nil
}

// makeSocketDir chooses the directory of the sockets.
func (n *Node) makeSocketDir() error {
	n.socketDir = n.dir
	if len(n.dir)+len("/")+maxSocketName <= maxSocketPath {
		return nil
	}
	short, err := os.MkdirTemp("", "devnode-")
	if err != nil {
		return err
	}
	if len(short)+len("/")+maxSocketName > maxSocketPath {
		return errors.Join(fmt.Errorf("%s is too long a path for sockets: set TMPDIR to a shorter one", short), os.Remove(short))
	}
	if err := os.Symlink(short, filepath.Join(n.dir, socketLink)); err != nil {
		return errors.Join(err, os.Remove(short))
	}
	n.socketDir = short
	return nil
}

// Dir returns the node's directory, absolute and without symbolic links.
func (n *Node) Dir() string { return n.dir }

// Endpoint returns the CRI endpoint of the runtime, as "unix:///path".
func (n *Node) Endpoint() string { return n.endpoint }

// Runtime returns the runtime's process. Tests kill it and start it again, and then call WaitReady. It is nil for
// Endpoint.
func (n *Node) Runtime() *Process { return n.runtime }

// Path returns a path below the node's directory. Close removes it, unless it is below log/.
func (n *Node) Path(elements ...string) string {
	return filepath.Join(append([]string{n.dir}, elements...)...)
}

// Socket returns a path for a Unix socket that is short enough for the kernel. name has at most 21 bytes.
func (n *Node) Socket(name string) string {
	if len(name)+len(".sock") > maxSocketName-len(".ttrpc") {
		panic("devnode: socket name too long: " + name)
	}
	return filepath.Join(n.socketDir, name+".sock")
}

// Close kills the running daemons, ends the runtime with all pods, and unmounts and removes the rest. It keeps only
// log/ and the lock file. No other method may run at the same time. Its error lists the objects that couldn't be
// removed. A second call does nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed || n.lock == nil {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()

	errs := []error{n.killProcesses(), n.step("clearing the node", n.clear), n.lock.Close()}
	if n.network.claim != nil {
		errs = append(errs, n.network.claim.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close devnode: %w", err)
	}
	return nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
