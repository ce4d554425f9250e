package podexecd

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podstream/podstream/internal/execsvc/dns"
	"github.com/podstream/podstream/internal/execsvc/token"
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
	tokens, err := n.tokens()
	if err != nil {
		return nil, err
	}
	if tokens != nil {
		volumes.Tokens = tokens
	}
	return world.New(world.Config{
		PodsDir: dir, Volumes: volume.New(volumes), Cgroups: cgroups, Users: users, Objects: n.objects, Tokens: tokens, Node: n.opts.node,
		Allocatable: known.info.Allocatable, HostIPs: hostIPs, Events: n.events,
		DNS: dns.Settings{ClusterDNS: settings.ClusterDNS, ClusterDomain: settings.ClusterDomain, ResolvConf: settings.ResolvConf, NodeIPs: hostIPs()},
	}), nil
}

// tokens are those that the API server gives; nil if there is none.
func (n *node) tokens() (*token.Tokens, error) {
	path := n.opts.settings.Kubeconfig
	if path == "" {
		return nil, nil
	}
	config, err := n.opts.apiServer()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", path, err)
	}
	return token.New(token.Config{Requests: token.From(client.CoreV1()), Logger: n.log}), nil
}

// apiServer is how the API server of --kubeconfig is reached.
func (o *Options) apiServer() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.settings.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", o.settings.Kubeconfig, err)
	}
	return config, nil
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
