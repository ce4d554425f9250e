package devnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"
)

// startRuntime starts the configured runtime, waits until it answers, and imports the images.
func (n *Node) startRuntime(ctx context.Context) error {
	switch n.config.Runtime {
	case Containerd17, Containerd2, Installed:
		return n.startContainerd(ctx)
	case Sim:
		return n.startSim(ctx)
	case Endpoint:
		if n.config.Endpoint == "" {
			return errors.New("no endpoint given")
		}
		n.endpoint = "unix://" + strings.TrimPrefix(n.config.Endpoint, "unix://")
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
		return n.importSampleImages(ctx)
	default:
		return fmt.Errorf("unknown runtime %d", n.config.Runtime)
	}
}

func (n *Node) startSim(ctx context.Context) error {
	binary, err := n.binary(ctx, "simruntimed")
	if err != nil {
		return err
	}
	n.endpoint = "unix://" + n.Socket("sim")
	n.runtime = n.newProcess("simruntimed", binary, "--listen", n.endpoint, "--state-dir", n.Path("sim"))
	if err := n.runtime.Start(); err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

func (n *Node) startContainerd(ctx context.Context) error {
	binary, err := findTool(n.config, "containerd")
	if err != nil {
		return err
	}
	if err := n.makeNetwork(); err != nil {
		return err
	}
	if err := n.writeContainerdConfig(); err != nil {
		return err
	}
	// Root in a pod with its own users is another user, and its root file system is in here.
	if err := os.MkdirAll(n.Path("containerd"), 0o711); err != nil {
		return err
	}
	n.endpoint = "unix://" + n.containerdSocket()
	n.runtime = n.newProcess("containerd", binary, "--config", n.Path("containerd.toml"))
	n.runtime.enter = n.InNetwork
	// containerd searches for its shim in PATH. The shim must be of the same version.
	n.runtime.env = []string{"PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")}
	err = n.step("starting containerd", func() error {
		if err := n.runtime.Start(); err != nil {
			return err
		}
		return n.WaitReady(ctx)
	})
	if err != nil {
		return err
	}
	return n.importSampleImages(ctx)
}

func (n *Node) containerdSocket() string { return n.Socket("containerd") }

// runcRoot returns the directory in which runc has the state of each container.
func (n *Node) runcRoot() string { return n.Path("runc", criNamespace) }

// criNamespace is containerd's namespace for CRI.
const criNamespace = "k8s.io"

// containerdConfig is for containerd 1.6, 1.7 and 2. It disables plugins that tests don't need, or that would write
// outside of the directory (opt).
var containerdConfig = template.Must(template.New("containerd.toml").Parse(`version = 2
root = {{.Root}}
state = {{.State}}
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = {{.Socket}}

[ttrpc]
  address = {{.TTRPCSocket}}

[debug]
  address = ""

[metrics]
  address = ""

# Its socket is in /run/nri, where two containerds at a time exclude each other.
[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {{.PauseImage}}
  restrict_oom_score_adj = {{.RestrictOOMScores}}
  # Beneath our directory, instead of in /run/netns, which all programs share.
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  tolerate_missing_hugetlb_controller = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = {{.CNIBinDir}}
  conf_dir = {{.CNIConfDir}}

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = {{.RegistryDir}}

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = {{.Snapshotter}}
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  Root = {{.RuncDir}}
`))

func (n *Node) writeContainerdConfig() error {
	snapshotter, err := n.snapshotter()
	if err != nil {
		return err
	}
	values := map[string]string{
		"Root":        n.Path("containerd", "root"),
		"State":       n.containerdState(),
		"Socket":      n.containerdSocket(),
		"TTRPCSocket": n.containerdSocket() + ".ttrpc",
		"PauseImage":  PauseImage,
		"CNIBinDir":   n.network.binDir,
		"CNIConfDir":  n.Path("cni", "conf"),
		"RegistryDir": n.Path("registries"),
		"Snapshotter": snapshotter,
		"RuncDir":     filepath.Dir(n.runcRoot()),
	}
	for key, value := range values {
		quoted, err := json.Marshal(value) // a JSON string is a valid TOML string
		if err != nil {
			return err
		}
		values[key] = string(quoted)
	}
	values["RestrictOOMScores"] = strconv.FormatBool(!LowersOOMScores())
	var text strings.Builder
	if err := containerdConfig.Execute(&text, values); err != nil {
		return err
	}
	return os.WriteFile(n.Path("containerd.toml"), []byte(text.String()), 0o644)
}

func (n *Node) containerdState() string { return n.Path("containerd", "state") }

// snapshotter returns overlayfs if a trial mount in the node's directory succeeds. Otherwise it returns native, which
// copies each image for each container. The upper layer of an overlayfs can't be on another overlayfs, so overlayfs
// fails in most containers.
func (n *Node) snapshotter() (string, error) {
	trial := n.Path("overlay-trial")
	var options []string
	for _, name := range []string{"lowerdir", "upperdir", "workdir"} {
		dir := filepath.Join(trial, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		options = append(options, name+"="+dir)
	}
	merged := filepath.Join(trial, "merged")
	if err := os.Mkdir(merged, 0o755); err != nil {
		return "", err
	}
	name := "overlayfs"
	if err := unix.Mount("overlay", merged, "overlay", 0, strings.Join(options, ",")); err != nil {
		n.logf("overlayfs doesn't work in %s (%v): using the native snapshotter", n.dir, err)
		name = "native"
	} else if err := unix.Unmount(merged, 0); err != nil {
		return "", fmt.Errorf("unmount %s: %w", merged, err)
	}
	return name, os.RemoveAll(trial)
}
