package auth

import "testing"

func TestPeer(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:99": "192.0.2.1", "[::ffff:192.0.2.1]:99": "192.0.2.1", "[2001:db8:1:2:3::4]:9": "2001:db8:1:2::/64",
		"[::1]:9": "::1", "[fe80::1%lo]:9": "fe80::1%lo", "@": "@",
	} {
		if got := Peer(address); got != want {
			t.Errorf("%s: %s; want %s", address, got, want)
		}
	}
}
