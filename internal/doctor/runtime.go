package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
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
		return []Finding{{
			"runtime", Failed, fmt.Sprintf("no runtime answers at %s: %v", endpoint, err),
			"start the container runtime (systemctl status containerd), or give podexecd its socket by --container-runtime-endpoint. " +
				"A containerd that answers \"unknown service\" has its plugin cri disabled in /etc/containerd/config.toml",
		}}
	}
	name := version.GetRuntimeName() + " " + version.GetRuntimeVersion()
	status, err := client.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return []Finding{{"runtime", Failed, fmt.Sprintf("%s doesn't report its status: %v", name, err), "look at the runtime's log"}}
	}
	found := []Finding{{"runtime", OK, name + " at " + endpoint, ""}}
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
		}
	}
	found = append(found, network)
	if network.State == OK {
		found = append(found, plugins(status, e.Machine)...)
	}
	return append(found, e.driver(ctx, client)...)
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
func plugins(status *runtimeapi.StatusResponse, machine string) []Finding {
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
				return []Finding{{
					"network", Failed, fmt.Sprintf("the CNI plugin %s is in none of %s", plugin.Network.Type, strings.Join(c.PluginDirs, ", ")),
					"install it: Debian's package containernetworking-plugins, or the network add-on's image",
				}}
			}
		}
	}
	return nil
}

// driver checks whether podexecd and the runtime use the same cgroup driver.
func (e *examination) driver(ctx context.Context, client runtimeapi.RuntimeServiceClient) []Finding {
	config, err := client.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	if err == nil && config.GetLinux() != nil {
		return []Finding{{"cgroup driver", OK, "the runtime uses " + strings.ToLower(config.GetLinux().GetCgroupDriver().String()), ""}}
	}
	return []Finding{{
		"cgroup driver", OK, fmt.Sprintf("podexecd uses %s, and the runtime doesn't report its driver", e.Podexec.Settings.CgroupDriver),
		"",
	}}
}
