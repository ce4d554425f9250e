package nodediff

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
)

// Case is a configuration of a node, with what happens on it. Both agents play it, one after the other.
type Case struct {
	Name string
	// Config are fields of the KubeletConfiguration, in YAML, besides those of each case and in their place.
	Config string
	// Flags are flags of both agents.
	Flags []string
	// Gates are feature gates of the kubelet. Podstream has none: Own are fields of its configuration for the same.
	Gates, Own string
	// Prepare prepares the machine. It must be what reset makes of it otherwise.
	Prepare func(*Machine) error
	// Cgroups are cgroups whose files are compared, besides those of the pods.
	Cgroups []string
	// Pods are created before Act, and awaited by it, if at all.
	Pods []*v1.Pod
	// Act does something while the agent runs and its node is ready.
	Act func(context.Context, *Run) error
	// Wants are sections that the kubelet must make: without them the case shows nothing. The name of a path may follow
	// after a blank and "=", with its value: "node capacity.pods=50".
	Wants []string
	// Refuses says that both agents must refuse to start, and name each of Names in the reason.
	Refuses bool
	Names   []string
	// Long says that the case takes more than two minutes.
	Long bool
}

// common are the fields of the KubeletConfiguration of each case. DIR is the agent's directory.
const common = `
staticPodPath: DIR/manifests
podLogsDir: DIR/logs
volumePluginDir: DIR/plugins
resolvConf: DIR/resolv.conf
containerRuntimeEndpoint: unix://DIR/cri.sock
cgroupDriver: systemd
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 2s
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
`

// configuration returns the KubeletConfiguration of the case for an agent.
func (c *Case) configuration(dir string, agent Agent) ([]byte, error) {
	merged := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	texts := []string{common, c.Config}
	if agent == Podstream {
		texts = append(texts, c.Own)
	}
	for _, text := range texts {
		fields, err := parse(text, dir)
		if err != nil {
			return nil, err
		}
		maps.Copy(merged, fields)
	}
	maps.DeleteFunc(merged, func(_ string, v any) bool { return v == nil })
	return render(merged)
}
