// Package peernet tells which peers count as one, where a limit is shared between peers. It has no goroutines and no state.
package peernet

import "net/netip"

// Of returns the network by which a peer is counted: an IPv4 address itself, and of an IPv6 address the /64 network, as one
// host can use all addresses of it. Addresses that are valid on one link or machine only count by themselves.
func Of(ip netip.Addr) string {
	ip = ip.Unmap()
	if ip.Is4() || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}
