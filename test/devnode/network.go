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

// network describes the pods' network. The zero value means no network.
type network struct {
	// binDir is the directory of the CNI plugins.
	binDir string
	// ranges are the pods' address ranges. A pod has one address of each.
	ranges []netip.Prefix
	// namespace is the path at which the node's network namespace is mounted. It is empty if the node uses the network
	// namespace of this process.
	namespace string
	// claim reserves the range against other nodes on the machine. It is an abstract Unix socket. It leaves no file,
	// it is closed with the process, and its names are per network namespace, as the routes are. Nil means that no
	// other node can use the range.
	claim *net.UnixListener
}

// makeNetwork sets up the pods' network for the runtime.
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

// pickSubnet claims the first /24 of 10.213.0.0/16 that no node has claimed and that no interface uses. The pods of a
// killed node keep their addresses until they are cleared.
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

// writeNetworkConfig writes the CNI configuration: a link from the host to each pod. A bridge would have to be
// removed, so there is none. Without masquerading, pods reach only the host and each other. Only a separate namespace
// has iptables rules, for the pods' ports on the node. They end with the namespace.
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
		// The kernel checks for two seconds whether a new IPv6 address is a duplicate. In this network it never is.
		unchecked := map[string]any{
			"type":    "tuning",
			"dataDir": n.Path("cni", "tuning"),
			"sysctl":  map[string]any{"net.ipv6.conf.default.accept_dad": "0"},
			// The plugin tuning requires the result of an earlier plugin.
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
