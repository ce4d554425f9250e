package devnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Runtime is the kind of container runtime of a Node.
type Runtime int

// The runtimes. The zero value is Containerd17. The first three are a private containerd, with its own root, state,
// network and images. They need root.
const (
	// Containerd17 is the containerd 1.7 in .tools, regardless of the machine's version.
	Containerd17 Runtime = iota
	// Containerd2 is the containerd 2 in .tools.
	Containerd2
	// Installed is the containerd in PATH, of any version. Debian 12's 1.6 sends no container events.
	Installed
	// Sim is Podstream's simulated runtime, in a separate process. It needs no privileges and runs no real containers.
	Sim
	// Endpoint is a running runtime at Config.Endpoint. It is neither started, configured nor stopped.
	Endpoint
)

// toolVersions are the directories in .tools with the containerds that the machine itself need not have.
var toolVersions = map[Runtime]string{Containerd17: "containerd-1.7", Containerd2: "containerd-2"}

// isContainerd reports whether the node starts a containerd.
func (r Runtime) isContainerd() bool { return r == Containerd17 || r == Containerd2 || r == Installed }

// ContainerdOf returns the containerd in .tools of a version, "1.7" or "2".
func ContainerdOf(version string) (Runtime, error) {
	for runtime, name := range toolVersions {
		if name == "containerd-"+version {
			return runtime, nil
		}
	}
	return 0, fmt.Errorf("no containerd %q: the versions are 1.7 and 2", version)
}

// Names of the images that Start imports into the runtime. Both consist of the static program test/sample.
const (
	SampleImage = "localhost/podstream-sample:dev"
	PauseImage  = "localhost/podstream-pause:dev"
)

// Config configures a node.
type Config struct {
	// Dir is the node's directory. It must be new, empty, or the directory of an earlier Node. Required.
	Dir string
	// Runtime runs the pods. Zero means Containerd17.
	Runtime Runtime
	// Endpoint is the CRI endpoint ("unix:///path" or only the path) for the runtime Endpoint. It is ignored for the
	// others.
	Endpoint string
	// BinDir contains built binaries by their names: sample, simruntimed and the daemons. Binaries that it lacks are
	// built with the go command, which requires a working directory in Podstream's module. Empty means that all are
	// built.
	BinDir string
	// BuildFlags are flags of the go command for these builds, for instance "-race". The sample program is built
	// without them.
	BuildFlags []string
	// DaemonEnv are further environment variables of the daemons, as KEY=VALUE.
	DaemonEnv []string
	// NetworkNamespace gives the node a separate network namespace, in which the runtime and podexecd run. For the
	// pods, this namespace is the node. Its network has IPv4 and IPv6, and supports hostPort. Nothing of it is visible
	// outside: see InNetwork. It requires ip and iptables. It is ignored for runtimes other than the
	// containerds.
	NetworkNamespace bool
	// SkipImages doesn't import the sample images. Use it for a runtime that has them, or that isn't containerd. Sim
	// never needs them.
	SkipImages bool
	// Log gets a line for each step that takes more than a second, and if overlayfs can't be used. Nil means no log.
	Log io.Writer
}

// ErrUnavailable is wrapped by errors of Check and Start if the machine can't run the node. The text names the missing
// part and the remedy.
var ErrUnavailable = errors.New("devnode: can't run here")

// cniDirs are the directories in which distributions and containerd's packages install the CNI plugins.
var cniDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// tools are the programs that a containerd and its network need.
func (c *Config) tools() []string {
	tools := []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"}
	if c.NetworkNamespace {
		tools = append(tools, "ip", "iptables", "ip6tables")
	}
	return tools
}

// plugins are the CNI plugins of the network.
func (c *Config) plugins() []string {
	plugins := []string{"ptp", "host-local", "loopback"}
	if c.NetworkNamespace {
		plugins = append(plugins, "tuning", "portmap")
	}
	return plugins
}

// Check returns nil if Start can work here, or an error that is ErrUnavailable.
func Check(config Config) error {
	if !config.Runtime.isContainerd() {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: containerd needs root; run this as root, or with the simulated runtime", ErrUnavailable)
	}
	var missing []string
	for _, name := range config.tools() {
		if _, err := findTool(config, name); err != nil {
			missing = append(missing, name)
		}
	}
	if plugins := config.plugins(); cniBinDir(plugins) == "" {
		missing = append(missing, "the CNI plugins "+strings.Join(plugins, ", "))
	}
	switch version := toolVersions[config.Runtime]; {
	case len(missing) > 0 && version != "":
		return fmt.Errorf("%w: missing of %s: %s; hack/deps.sh %[2]s, after hack/deps.sh, installs it",
			ErrUnavailable, version, strings.Join(missing, ", "))
	case len(missing) > 0:
		return fmt.Errorf("%w: missing %s; hack/deps.sh installs them", ErrUnavailable, strings.Join(missing, ", "))
	default:
		return nil
	}
}

// findTool returns the path of a program. The programs of toolVersions are in .tools. All others, also runc, are the
// machine's.
func findTool(config Config, name string) (string, error) {
	version := toolVersions[config.Runtime]
	if version == "" || name != "ctr" && !strings.HasPrefix(name, "containerd") {
		return exec.LookPath(name)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".tools", version, name)
	if !isExecutable(path) {
		return "", fmt.Errorf("%s: %w", path, os.ErrNotExist)
	}
	return path, nil
}

// moduleRoot returns the directory of Podstream's go.mod, in or above the working directory. The working directory of a
// test is its package's, which may be in a module below it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(content, []byte("module "+module+"\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory isn't in Podstream's module")
		}
		dir = parent
	}
}

// cniBinDir returns the first directory that contains all these plugins, or nothing.
func cniBinDir(plugins []string) string {
	for _, dir := range cniDirs {
		lacks := func(plugin string) bool { return !isExecutable(filepath.Join(dir, plugin)) }
		if !slices.ContainsFunc(plugins, lacks) {
			return dir
		}
	}
	return ""
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
