package auth

import "net/netip"

// Peer is what callers are counted by, given a remote address with its port: an IPv4 address, or the network that one subscriber has of
// IPv6 addresses.
func Peer(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	ip := at.Addr().Unmap()
	if ip.Is4() || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}
