package devnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// network has the pods' addresses. The zero value is none.
type network struct {
	// binDir has the CNI plugins.
	binDir string
	// ranges are for the pods, one for each address that a pod has.
	ranges []netip.Prefix
	// namespace is where the node's own network namespace is mounted. Empty: it is in that of this process.
	namespace string
	// claim keeps other nodes of the machine from the range. It is an abstract Unix socket: it leaves no file, goes
	// with the process, and its names are as wide as the routes are, the network namespace. Nil: there is no other
	// node.
	claim *net.UnixListener
}

// makeNetwork makes the pods' network for the runtime.
func (n *Node) makeNetwork() error {
	if n.config.NetworkNamespace {
		path := n.Path("network")
		if err := makeNamespace(path); err != nil {
			return err
		}
		n.network = network{namespace: path, ranges: namespaceRanges}
	} else {
		subnet, claim, err := pickSubnet()
		if err != nil {
			return err
		}
		n.network = network{ranges: []netip.Prefix{subnet}, claim: claim}
	}
	n.network.binDir = cniBinDir(n.config.plugins())
	return n.writeNetworkConfig()
}

// pickSubnet claims the first free /24 of 10.213.0.0/16, which no node has claimed and no interface has: a killed
// node's pods keep their addresses until they are cleared.
func pickSubnet() (netip.Prefix, *net.UnixListener, error) {
	var taken []netip.Prefix
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, nil, fmt.Errorf("list the addresses in use: %w", err)
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			taken = append(taken, prefix.Masked())
		}
	}
	for i := range 256 {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(i), 0}), 24)
		if slices.ContainsFunc(taken, prefix.Overlaps) {
			continue
		}
		claim, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@podstream-devnode/" + prefix.String()})
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return netip.Prefix{}, nil, fmt.Errorf("claim the subnet %s: %w", prefix, err)
		}
		return prefix, claim, nil
	}
	return netip.Prefix{}, nil, errors.New("all subnets in 10.213.0.0/16 are in use")
}

// writeNetworkConfig writes the CNI configuration: a link from the host to each pod, and no bridge, which would have
// to be removed. No masquerading: pods reach only the host and each other. Only a separate namespace has iptables
// rules, those of the pods' ports on the node, which end with it.
func (n *Node) writeNetworkConfig() error {
	var ranges [][]any
	var routes []any
	for _, prefix := range n.network.ranges {
		ranges = append(ranges, []any{map[string]any{"subnet": prefix.String()}})
		everywhere := "0.0.0.0/0"
		if prefix.Addr().Is6() {
			everywhere = "::/0"
		}
		routes = append(routes, map[string]any{"dst": everywhere})
	}
	plugins := []any{map[string]any{
		"type":   "ptp",
		"ipMasq": false,
		"ipam":   map[string]any{"type": "host-local", "dataDir": n.Path("cni", "addresses"), "ranges": ranges, "routes": routes},
	}}
	if n.network.namespace != "" {
		// A new address of IPv6 is looked for in the network for two seconds, in case that it has it already. It
		// never has.
		unchecked := map[string]any{
			"type":    "tuning",
			"dataDir": n.Path("cni", "tuning"),
			"sysctl":  map[string]any{"net.ipv6.conf.default.accept_dad": "0"},
			// This plugin wants to come after another one, of which this is the result.
			"prevResult": map[string]any{"cniVersion": cniVersion},
		}
		ports := map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}}
		plugins = slices.Concat([]any{unchecked}, plugins, []any{ports})
	}
	text, err := json.MarshalIndent(map[string]any{"cniVersion": cniVersion, "name": "podstream-devnode", "plugins": plugins}, "", "  ")
	if err != nil {
		return err
	}
	path := n.Path("cni", "conf", "10-devnode.conflist")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

const cniVersion = "0.4.0"
