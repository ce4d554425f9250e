package devnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// subnet is a range of addresses that no other node on the machine has. The claim to it is an abstract Unix socket: it leaves
// no file, and goes with the process, and its names are as wide as the routes are, the network namespace.
type subnet struct {
	prefix netip.Prefix
	claim  *net.UnixListener
}

func (s *subnet) Close() error { return s.claim.Close() }

// pickSubnet claims the first free /24 of 10.213.0.0/16. Free is what no node claims and no interface has: that of a node
// which was killed keeps its addresses until it is cleared.
func pickSubnet() (*subnet, error) {
	var taken []netip.Prefix
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses in use: %w", err)
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			taken = append(taken, prefix.Masked())
		}
	}
	for i := range 256 {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(i), 0}), 24)
		if overlapsAny(prefix, taken) {
			continue
		}
		claim, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@podstream-devnode/" + prefix.String()})
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claim the subnet %s: %w", prefix, err)
		}
		return &subnet{prefix: prefix, claim: claim}, nil
	}
	return nil, errors.New("all subnets in 10.213.0.0/16 are in use")
}

func overlapsAny(prefix netip.Prefix, others []netip.Prefix) bool {
	for _, other := range others {
		if prefix.Overlaps(other) {
			return true
		}
	}
	return false
}

// writeNetworkConfig writes the CNI configuration: a link from the host to each pod, and no bridge that would have to be
// removed. No masquerading, so no iptables: pods reach the host and each other, and nothing beyond.
func (n *Node) writeNetworkConfig() error {
	config := map[string]any{
		"cniVersion": "0.4.0",
		"name":       "podstream-devnode",
		"plugins": []any{map[string]any{
			"type":   "ptp",
			"ipMasq": false,
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": n.Path("cni", "addresses"),
				"ranges":  [][]any{{map[string]any{"subnet": n.subnet.prefix.String()}}},
				"routes":  []any{map[string]any{"dst": "0.0.0.0/0"}},
			},
		}},
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	path := n.Path("cni", "conf", "10-devnode.conflist")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
