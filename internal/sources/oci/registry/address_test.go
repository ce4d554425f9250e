package registry

import (
	"errors"
	"net/netip"
	"testing"
)

// TestAddresses: which addresses are refused, in each form in which IPv6 writes one of IPv4.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]error{
		"169.254.169.254": errLinkLocal, "169.254.0.1": errLinkLocal, "fe80::1": errLinkLocal, "fe80::1%eth0": errLinkLocal, "febf::1": errLinkLocal,
		"::ffff:169.254.169.254": errLinkLocal, "64:ff9b::a9fe:a9fe": errLinkLocal, "2002:a9fe:a9fe::1": errLinkLocal,
		"fd00:ec2::254": errLinkLocal, "fd20:ce::254": errLinkLocal, "100.100.100.200": errLinkLocal, "168.63.129.16": errLinkLocal, "192.0.0.192": errLinkLocal,
		"64:ff9b:1::a9fe:a9fe": errLinkLocal, "64:ff9b:1:7::7f00:1": errLoopback, "::a9fe:a9fe": errLinkLocal, "::127.0.0.1": errLoopback,
		"fd00:ec2::23": errLinkLocal, "fd00:42::42": errLinkLocal, "64:ff9b:1::808:808": nil,
		"127.0.0.1": errLoopback, "127.8.8.8": errLoopback, "::1": errLoopback, "0.0.0.0": errLoopback, "::": errLoopback, "::ffff:127.0.0.1": errLoopback,
		"64:ff9b::7f00:1": errLoopback, "224.0.0.1": errNoAddress, "ff02::1": errNoAddress, "255.255.255.255": errNoAddress,
		"10.0.0.1": nil, "192.168.1.1": nil, "8.8.8.8": nil, "fd00::1": nil, "2001:db8::1": nil, "169.253.255.255": nil, "fec0::1": nil,
	} {
		a := netip.MustParseAddr(text)
		if err := checkAddress(a, false); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", text, err, want)
		}
		allowed := want
		if errors.Is(want, errLoopback) {
			allowed = nil
		}
		if err := checkAddress(a, true); !errors.Is(err, allowed) {
			t.Errorf("%s, with loopback: %v; want %v", text, err, allowed)
		}
	}
}

// TestHosts: addresses in other notations are refused, as a proxy may read them.
func TestHosts(t *testing.T) {
	for host, want := range map[string]error{
		"registry.example": nil, "registry": nil, "a.b.c1": nil, "xn--e1afmkfd.example": nil, "registry.example.": nil,
		"2852039166": errNoAddress, "0xa9fea9fe": errNoAddress, "0251.0376.0251.0376": errNoAddress, "169.254.43518": errNoAddress,
		"169.254.169.254.": errNoAddress, "a.0x7f": errNoAddress, "": errNoAddress, ".": errNoAddress,
		"169.254.169.254": errLinkLocal, "fe80::1%25eth0": errLinkLocal, "localhost": errLoopback, "a.LOCALHOST.": errLoopback, "127.0.0.1": errLoopback,
	} {
		if err := checkHost(host, false); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", host, err, want)
		}
	}
}

func TestTokenHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"auth.docker.io": true, "auth.example:8443": true, "[2001:db8::1]:443": true,
		"": false, "https://auth.docker.io": false, "auth.docker.io/token": false, "a@b": false, "a?b": false, "a b": false, ":443": false,
	} {
		if err := CheckTokenHost(host); (err == nil) != want {
			t.Errorf("%q: %v", host, err)
		}
	}
}
