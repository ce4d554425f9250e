package registry

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/sources/fault"
)

const (
	errLinkLocal fault.Error = "the address is link-local, or that of a metadata server: it isn't used"
	errLoopback  fault.Error = "the address is on loopback, and the registry isn't: it isn't used"
	errNoAddress fault.Error = "the address can't be used"
)

// metadata are addresses of clouds' metadata servers that aren't link-local.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // AWS: credentials of pods
	netip.MustParseAddr("fd00:42::42"),     // Scaleway
	netip.MustParseAddr("fd20:ce::254"),    // Google
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle
}

// Prefixes of IPv6 in which addresses of IPv4 stand: those of NAT64, also of a network's own (RFC 8215), of 6to4, and the
// deprecated ones of IPv4-compatible addresses.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	ownNAT64   = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	sixTo      = netip.MustParsePrefix("2002::/16")
)

// checkAddress returns why no connection may be made to an address. loopback allows that.
func checkAddress(a netip.Addr, loopback bool) error {
	a = a.WithZone("").Unmap()
	if a.Is6() {
		b := a.As16()
		switch {
		case nat64.Contains(a), ownNAT64.Contains(a), compatible.Contains(a) && !a.IsLoopback() && !a.IsUnspecified():
			a = netip.AddrFrom4([4]byte(b[12:]))
		case sixTo.Contains(a):
			a = netip.AddrFrom4([4]byte(b[2:6]))
		}
	}
	switch {
	case a.IsLinkLocalUnicast() || slices.Contains(metadata, a):
		return errLinkLocal
	case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errNoAddress
	case (a.IsLoopback() || a.IsUnspecified()) && !loopback:
		return errLoopback
	}
	return nil
}

// checkHost is checkAddress for a host as a URL has it. A name passes: it is checked once it is resolved. What looks like
// an address in another notation doesn't, as a proxy might read it as one.
func checkHost(host string, loopback bool) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return checkAddress(a, loopback)
	}
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || last[0] >= '0' && last[0] <= '9' {
		return errNoAddress
	}
	if isLocalName(host) && !loopback {
		return errLoopback
	}
	return nil
}

// isLocalName reports whether a name is one of this machine by its definition.
func isLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// isLoopback reports whether a host is on loopback as it is written.
func isLoopback(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback()
	}
	return isLocalName(host)
}
