package peernet

import (
	"net/netip"
	"testing"
)

// TestOf: the addresses of a /64 network of IPv6 count as one peer, and hosts on one link don't.
func TestOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.2": "192.0.2.2", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8::1": "2001:db8::/64", "2001:db8::2:0:0:1": "2001:db8::/64", "2001:db8:0:1::1": "2001:db8:0:1::/64",
		"fe80::1%eth0": "fe80::1%eth0", "fe80::2%eth0": "fe80::2%eth0", "::1": "::1",
	} {
		if got := Of(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s counts as %s; want %s", address, got, want)
		}
	}
}
