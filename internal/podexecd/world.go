package podexecd

import (
	"fmt"

	"github.com/podstream/podstream/internal/execsvc/dns"
	"github.com/podstream/podstream/internal/execsvc/userns"
	"github.com/podstream/podstream/internal/execsvc/volume"
	"github.com/podstream/podstream/internal/execsvc/world"
)

// world makes what gives pods what they find on the node.
func (n *node) world(known *facts, hostIPs func() []string) (*world.World, error) {
	settings, dir := n.opts.settings, podsDir(n.opts.RootDir)
	cgroups, err := known.cgroups(settings, n.log)
	if err != nil {
		return nil, fmt.Errorf("make the cgroups of pods, without which podexecd runs with --cgroups-per-qos=false: %w", err)
	}
	users, err := userIDs(n.opts)
	if err != nil {
		return nil, fmt.Errorf("share out user ids to pods: %w", err)
	}
	volumes := volume.Config{PodsDir: dir, RecursiveReadOnly: known.runtime.Handlers[""].RecursiveReadOnlyMounts}
	cfg := world.Config{
		PodsDir: dir, Cgroups: cgroups, Users: users, Objects: n.objects, Node: n.opts.node,
		Allocatable: known.info.Allocatable, HostIPs: hostIPs, Events: n.events,
		DNS: dns.Settings{ClusterDNS: settings.ClusterDNS, ClusterDomain: settings.ClusterDomain, ResolvConf: settings.ResolvConf, NodeIPs: hostIPs()},
	}
	if c := n.cluster; c != nil {
		cfg.Tokens, cfg.Cluster = c.tokens(), c.given
		volumes.Tokens, volumes.Bundles = cfg.Tokens, c.given
	}
	cfg.Volumes = volume.New(volumes)
	return world.New(cfg), nil
}

// userIDs makes the manager of the ids of pods with users of their own. The node's owner may give these ids to the user kubelet.
func userIDs(opts *Options) (*userns.Manager, error) {
	given, err := userns.Subordinate("/etc/subuid", "/etc/subgid", userns.Owner)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // The settings were checked.
	return userns.New(userns.Config{PodsDir: podsDir(opts.RootDir), IDsPerPod: uint32(opts.settings.IDsPerPod), Range: given})
}
