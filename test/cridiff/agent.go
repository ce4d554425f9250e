package cridiff

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Site is where an agent runs: its directory, its node, and the runtime's socket.
type Site struct {
	// Dir is the agent's directory, which is new.
	Dir string
	// Programs is the directory of podconfigd, podexecd, simruntimed and kubelet.
	Programs string
	// CgroupRoot is the same for both agents, which run one after the other.
	CgroupRoot string
	Node       Node
	// Systemd says that pods are in slices, below systemd's root slice. CgroupRoot is empty then.
	Systemd bool
	// Runtime is the endpoint of a runtime with real containers, in whose network namespace the agents run. Dir must
	// then be a shared mount, for the agents' mounts to reach the containers. Empty: a simulated one is started.
	Runtime string
	// Plant changes the agent's requests on their way to the runtime: a test of the comparison. Nil changes none.
	Plant Change
	// Removals compares what the agent removes too: Play waits for it.
	Removals bool
	// Rotate makes the logs of the containers too long, and waits for the agent to rotate them.
	Rotate bool
	// Resized are what the pods are resized to while they run, by UID. Not nil: the pods aren't static but those of an API
	// server, each in the namespace that is named like its UID.
	Resized map[types.UID]*v1.Pod
	// Network is the runtime's network namespace, and IP the node's address in it.
	Network, IP string

	api *apiServer
}

// Node is a kind of node.
type Node struct {
	// Config is added to the KubeletConfiguration of both agents, as YAML.
	Config string
	// Gates are feature gates of the kubelet, besides commonGates.
	Gates []string
	// Facts are facts of the machine that isolate.sh makes.
	Facts []string
}

// commonGates are the kubelet's gates for what Podstream does on each node. Podstream has no gates.
var commonGates = []string{"ContainerStopSignals=true"}

// The facts of a node.
const (
	cgroup2   = "cgroup2"
	swap      = "swap"
	hugePages = "hugepages"
)

const (
	// nodeName and nodeIP are the node's name and address for both agents, beside a simulated runtime.
	nodeName = "node"
	nodeIP   = "192.0.2.1"
	// apiPort is the port of the agents' API in their network namespaces.
	apiPort = "10250"
)

func (s *Site) nodeIP() string { return cmp.Or(s.IP, nodeIP) }

func (s *Site) path(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

// prepare makes the directories, the configuration and the cgroups.
func (s *Site) prepare() error {
	for _, dir := range []string{"manifests", "logs", "plugins", "root"} {
		if err := os.MkdirAll(s.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.path("resolv.conf"), []byte("nameserver 192.0.2.53\nsearch example.com\n"), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("config.yaml"), []byte(s.configuration()), 0o644); err != nil {
		return err
	}
	if s.Systemd {
		return nil
	}
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	for _, file := range hierarchies {
		if err := os.MkdirAll(filepath.Join(filepath.Dir(file), s.CgroupRoot), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// configuration is both agents' KubeletConfiguration. Pulls aren't limited: what the kubelet doesn't pull at once, it
// tries again much later.
func (s *Site) configuration() string {
	text := `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: DIR/manifests
podLogsDir: DIR/logs
volumePluginDir: DIR/plugins
resolvConf: DIR/resolv.conf
containerRuntimeEndpoint: unix://DIR/cri.sock
enableServer: true
address: 127.0.0.1
port: PORT
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
registryPullQPS: 0
serializeImagePulls: false
cgroupDriver: DRIVER
enforceNodeAllocatable: [none]
failCgroupV1: false
failSwapOn: false
maxPods: 500
podCIDR: 10.85.0.0/16
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
allowedUnsafeSysctls: ["kernel.msg*", "net.*"]
evictionHard: {memory.available: 10Mi}
imageGCHighThresholdPercent: 100
`
	driver := "cgroupfs"
	switch {
	case s.Systemd:
		driver = "systemd"
	case slices.Contains(s.Node.Facts, cgroup2):
		// The controllers of version 2 are version 1's here, so pods have no cgroups.
		text += "cgroupsPerQOS: false\n"
	default:
		text += "cgroupRoot: CGROUP\n"
	}
	return strings.NewReplacer("DIR", s.Dir, "CGROUP", s.CgroupRoot, "PORT", apiPort, "DRIVER", driver).Replace(text) + s.Node.Config
}

// Agent is an agent whose requests are compared.
type Agent struct {
	Name string
	// start starts its processes. The first one serves the node's API.
	start func(s *Site) ([]*process, error)
}

// The agents.
var (
	Kubelet   = Agent{Name: "kubelet", start: (*Site).startKubelet}
	Podstream = Agent{Name: "podstream", start: (*Site).startPodstream}
)

// withKubeconfig adds the flag for the API server to arguments, if there is one.
func (s *Site) withKubeconfig(args ...string) []string {
	if s.api != nil {
		args = append(args, "--kubeconfig", s.path("kubeconfig"))
	}
	return args
}

// startKubelet starts the kubelet.
func (s *Site) startKubelet() ([]*process, error) {
	p, err := s.start("kubelet", s.withKubeconfig("--config", s.path("config.yaml"), "--root-dir", s.path("root"), "--cert-dir", s.path("pki"),
		"--hostname-override", nodeName, "--node-ip", s.nodeIP(), "--v", "2",
		"--feature-gates", strings.Join(slices.Concat(commonGates, s.Node.Gates), ","))...)
	if err != nil {
		return nil, err
	}
	return []*process{p}, nil
}

// startPodstream starts podconfigd and podexecd.
func (s *Site) startPodstream() ([]*process, error) {
	socket := "unix://" + s.path("c.sock")
	c, err := s.start("podconfigd", s.withKubeconfig("--root-dir", s.path("podconfigd"), "--listen", socket,
		"--hostname-override", nodeName, "--pod-manifest-path", s.path("manifests"))...)
	if err != nil {
		return nil, err
	}
	x, err := s.start("podexecd", s.withKubeconfig("--config", s.path("config.yaml"), "--root-dir", s.path("root"), "--kubelet-dir", s.path("root"), "--listen", "unix://"+s.path("x.sock"),
		"--cert-dir", s.path("pki"), "--hostname-override", nodeName, "--node-ip", s.nodeIP(), "--podconfig-endpoint", socket, "--tune-kernel=false")...)
	if err != nil {
		return nil, errors.Join(err, c.kill())
	}
	return []*process{x, c}, nil
}

// startRuntime starts a new simulated runtime, unless there is a real one.
func (s *Site) startRuntime() (p *process, endpoint string, err error) {
	if s.Runtime != "" {
		return nil, s.Runtime, nil
	}
	endpoint = "unix://" + s.path("sim.sock")
	p, err = s.start("simruntimed", "--listen", endpoint, "--state-dir", s.path("sim"), "--image", "docker.io/", "--image", "example.org/")
	return p, endpoint, err
}

// Clear removes the cgroups and the directory.
func (s *Site) Clear() error {
	if s.Systemd {
		return errors.Join(ClearSlices(), os.RemoveAll(s.Dir))
	}
	dirs, err := cgroupDirs(cgroupMount, s.CgroupRoot)
	errs := []error{err}
	for _, dir := range slices.Backward(dirs) {
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(append(errs, os.RemoveAll(s.Dir))...)
}

// patience returns how long to wait for something that takes that time on a machine with several processors.
func (s *Site) patience(d time.Duration) time.Duration {
	switch {
	case !s.Systemd:
		return d
	case s.Runtime != "":
		return 6 * d // A guest has one processor, of which a pod takes five seconds.
	default:
		return 2 * d
	}
}
