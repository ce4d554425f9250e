package podexecd

import (
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/setup/dns"
	"github.com/podstream/podstream/internal/execsvc/setup/podsetup"
	"github.com/podstream/podstream/internal/execsvc/setup/userns"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// podSetup returns the manager that makes the volumes, cgroup, environment and hosts file of each pod.
func (n *node) podSetup(known *facts, against func() admit.Node, hostIPs func() []string) (*podsetup.Manager, error) {
	settings := n.opts.settings
	cgroups, err := known.cgroups(settings, n.recordNodeEvent, n.registry, n.log)
	if err != nil {
		return nil, fmt.Errorf("create the cgroups of pods, which --cgroups-per-qos=false disables: %w", err)
	}
	if err := enforceReserved(settings, known.cgroupDriver, n.recordNodeEvent, n.log); err != nil {
		return nil, err
	}
	users, err := userIDs(n.opts, n.podDirs)
	if err != nil {
		return nil, fmt.Errorf("allocate user IDs to pods: %w", err)
	}
	volumes := volume.Config{
		PodDirs: n.podDirs, RecursiveReadOnly: func(pod *v1.Pod) bool { node := against(); return node.RecursiveReadOnly(pod) },
		ReadOnlyDirs: readOnlyDirs(n.opts.podconfigEndpoints, n.opts.RootDir), Metrics: n.registry,
		Plugins: []volume.Plugin{podVolumes{n.volumes.storage, n.volumes.waiting}}, Helpers: n.volumes.helpers,
	}
	cfg := podsetup.Config{
		PodDirs: n.podDirs, Cgroups: cgroups, Users: users, Objects: n.objects, Node: n.opts.node,
		Allocatable: known.info.Allocatable, HostIPs: hostIPs, Events: n.events, Claims: n.volumes.waiting,
		VolumeGroups: n.volumes.storage.Groups,
		DNS:          dns.Settings{ClusterDNS: settings.ClusterDNS, ClusterDomain: settings.ClusterDomain, ResolvConf: settings.ResolvConf, NodeIPs: hostIPs()},
	}
	if c := n.cluster; c != nil {
		cfg.Tokens, cfg.Cluster = c.tokens, c.objects
		volumes.Tokens, volumes.Bundles = cfg.Tokens, c.objects
	}
	cfg.Volumes = volume.New(volumes)
	return podsetup.New(cfg), nil
}

// readOnlyDirs returns the directories that decide which pods run: those of podconfigd's sockets, and podconfigd's
// root directory next to podexecd's, or beneath it, as the kubelet's launcher has it. It returns none if podconfigd is on another machine.
func readOnlyDirs(endpoints []string, rootDir string) (dirs []string) {
	for _, endpoint := range endpoints {
		if socket, ok := strings.CutPrefix(endpoint, "unix://"); ok {
			dirs = append(dirs, filepath.Dir(socket))
		}
	}
	if dirs == nil {
		return nil
	}
	return append(dirs, filepath.Join(filepath.Dir(filepath.Clean(rootDir)), "podconfigd"), filepath.Join(rootDir, "podconfigd"))
}

// userIDs returns the manager of the user IDs of pods with user namespaces. The node's owner may assign these IDs to
// the user kubelet.
func userIDs(opts *Options, dirs kubeletdir.Pods) (*userns.Manager, error) {
	given, err := userns.Subordinate("/etc/subuid", "/etc/subgid", userns.Owner)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // The settings were checked.
	return userns.New(userns.Config{PodDirs: dirs, IDsPerPod: uint32(opts.settings.IDsPerPod), Range: given})
}
