package auth

import (
	"net/netip"

	"github.com/podstream/podstream/internal/peernet"
)

// Peer returns the value by which callers are counted, given a remote address with its port: an IPv4 address, or one
// subscriber's network of IPv6 addresses.
func Peer(address string) string {
	_, network := peer(address)
	return network
}

// Address returns a caller's address, given a remote address with its port.
func Address(remote string) string {
	address, _ := peer(remote)
	return address
}

// peer returns a caller's address without its port, and the subscriber's network: for IPv6 a /64, which may also be
// the network of all pods of a node.
func peer(remote string) (address, network string) {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote, remote
	}
	return at.Addr().Unmap().String(), peernet.Of(at.Addr())
}
