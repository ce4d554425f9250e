package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtime checks the container runtime and its pod network.
func (e *examination) runtime(ctx context.Context) []Finding {
	endpoint := e.Podexec.Settings.RuntimeEndpoint
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return []Finding{{"runtime", Failed, err.Error(), "give podexecd the runtime's socket by --container-runtime-endpoint"}}
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	version, err := client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return []Finding{{"runtime", Failed, fmt.Sprintf("no runtime answers at %s: %v", endpoint, err), e.reach(endpoint, err)}}
	}
	name := version.GetRuntimeName() + " " + version.GetRuntimeVersion()
	status, err := client.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return []Finding{{"runtime", Failed, fmt.Sprintf("%s doesn't report its status: %v", name, err), "look at the runtime's log"}}
	}
	found := []Finding{{"runtime", OK, name + " at " + endpoint, ""}}
	var deprecated []Finding
	network := Finding{"network", OK, "the runtime has a network for pods", ""}
	for _, c := range status.GetStatus().GetConditions() {
		if c.GetStatus() {
			continue
		}
		why := fmt.Sprintf("%s: %s", c.GetReason(), c.GetMessage())
		switch c.GetType() {
		case runtimeapi.RuntimeReady:
			found[0] = Finding{"runtime", Failed, name + " isn't ready: " + why, "look at the runtime's log"}
		case runtimeapi.NetworkReady:
			network = Finding{
				"network", Failed, why,
				"put a CNI configuration, *.conflist, into " + confDir(status) + ", or wait until the network add-on has done it; pods with hostNetwork start without",
			}
		default:
			// containerd reports by a condition of its own what its next version won't accept.
			deprecated = append(deprecated, Finding{"runtime", Warning, name + " reports " + c.GetType() + " as false: " + why,
				"do what the message says before the runtime's next upgrade"})
		}
	}
	if network.State == OK {
		if f := plugins(status, e.Machine); f != nil {
			network = *f
		}
	}
	found = append(append(found, deprecated...), network)
	found = append(found, e.driver(ctx, client, status)...)
	return append(found, e.features(version, status)...)
}

// reach advises how the runtime comes to answer, by the error of a call.
func (e *examination) reach(endpoint string, err error) string {
	path := strings.TrimPrefix(endpoint, "unix://")
	_, statErr := os.Stat(path)
	switch {
	case grpcstatus.Code(err) == codes.Unimplemented:
		return "what answers there has no CRI v1: take cri out of disabled_plugins in /etc/containerd/config.toml, or see in containerd's log why its plugin failed"
	case grpcstatus.Code(err) == codes.DeadlineExceeded:
		return "it accepts connections and doesn't answer: look at its log, and restart it if it hangs; with KillMode=process, containers stay"
	case errors.Is(statErr, fs.ErrNotExist):
		return "start the container runtime (systemctl status containerd), or give podexecd its socket by --container-runtime-endpoint"
	case errors.Is(unix.Access(path, unix.W_OK), unix.EACCES):
		return "run podctl as root"
	}
	return "the socket is there, and no runtime listens: start it (systemctl status containerd)"
}

// cniConfig is the CNI configuration in the verbose part of containerd's status.
type cniConfig struct {
	PluginDirs    []string
	PluginConfDir string
	Networks      []struct {
		Config struct {
			Plugins []struct{ Network struct{ Type string } }
		}
	}
	LastCNILoadError string
}

func readCNI(status *runtimeapi.StatusResponse) (c cniConfig) {
	// Other runtimes have other contents; an unreadable one counts as unknown.
	_ = json.Unmarshal([]byte(status.GetInfo()["cniconfig"]), &c)
	return c
}

func confDir(status *runtimeapi.StatusResponse) string {
	if dir := readCNI(status).PluginConfDir; dir != "" {
		return dir
	}
	return "/etc/cni/net.d"
}

// plugins checks whether the plugins in the CNI configuration exist.
func plugins(status *runtimeapi.StatusResponse, machine string) *Finding {
	c := readCNI(status)
	for _, network := range c.Networks {
		for _, plugin := range network.Config.Plugins {
			there := false
			for _, dir := range c.PluginDirs {
				if _, err := os.Stat(filepath.Join(machine, dir, plugin.Network.Type)); err == nil {
					there = true
				}
			}
			if !there && plugin.Network.Type != "" && len(c.PluginDirs) > 0 {
				return &Finding{
					"network", Failed, fmt.Sprintf("the CNI plugin %s is in none of %s", plugin.Network.Type, strings.Join(c.PluginDirs, ", ")),
					"install it: Debian's package containernetworking-plugins, or the network add-on's image; or set bin_dirs in the runtime's configuration",
				}
			}
		}
	}
	return nil
}
