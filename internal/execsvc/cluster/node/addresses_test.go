package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func TestAddresses(t *testing.T) {
	const bad = "error"
	for name, c := range map[string]struct {
		nodeIPs []string
		host    string
		dns     []string
		want    string
	}{
		"--node-ip":                     {[]string{"10.0.0.2"}, "n1", []string{"10.0.0.1"}, "[10.0.0.2]"},
		"two":                           {[]string{"fd00::1", "10.0.0.1"}, "n1", nil, "[fd00::1 10.0.0.1]"},
		"not this machine's":            {[]string{"10.9.9.9"}, "n1", nil, bad},
		"one of two isn't":              {[]string{"10.0.0.1", "fd00::9"}, "n1", nil, bad},
		"loopback":                      {[]string{"127.0.0.1"}, "n1", nil, bad},
		"link-local":                    {[]string{"fe80::1"}, "n1", nil, bad},
		"multicast":                     {[]string{"224.0.0.1"}, "n1", nil, bad},
		"hostname":                      {nil, "192.0.2.7", []string{"10.0.0.1"}, "[192.0.2.7]"},
		"DNS":                           {nil, "n1", []string{"10.9.9.9", "127.0.0.1", "fd00::1", "10.0.0.2"}, "[10.0.0.2]"},
		"DNS of the other family":       {nil, "n1", []string{"fd00::1"}, "[fd00::1]"},
		"DNS of the family asked for":   {[]string{"::"}, "n1", []string{"10.0.0.2", "fd00::1"}, "[fd00::1]"},
		"DNS with mapped addresses":     {nil, "n1", []string{"::ffff:10.0.0.2"}, "[10.0.0.2]"},
		"default":                       {nil, "n1", []string{"10.9.9.9"}, "[10.0.0.1]"},
		"default of the family, no DNS": {[]string{"::"}, "n1", nil, "[fd00::1]"},
	} {
		a := NewAddresses(AddressConfig{
			NodeIPs: addrs(c.nodeIPs...), Node: "node", Hostname: c.host,
			Interfaces: func() ([]netip.Addr, error) {
				return addrs("127.0.0.1", "fe80::1", "224.0.0.1", "10.0.0.1", "10.0.0.2", "fd00::1"), nil
			},
			Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
				if name != "node" || c.dns == nil {
					return nil, errors.New("no such host")
				}
				return addrs(c.dns...), nil
			},
			Default: func(family netip.Addr) (netip.Addr, error) {
				if family.Is6() {
					return netip.MustParseAddr("fd00::1"), nil
				}
				return netip.MustParseAddr("10.0.0.1"), nil
			},
		})
		got, err := a.IPs(t.Context())
		text := fmt.Sprint(got)
		if err != nil {
			text = bad
		}
		if diff := cmp.Diff(c.want, text); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNoAddress(t *testing.T) {
	none := errors.New("no route")
	a := NewAddresses(AddressConfig{
		Node: "node", Interfaces: func() ([]netip.Addr, error) { return nil, nil },
		Lookup:  func(context.Context, string) ([]netip.Addr, error) { return nil, none },
		Default: func(netip.Addr) (netip.Addr, error) { return netip.Addr{}, none },
	})
	if _, err := a.IPs(t.Context()); !errors.Is(err, none) {
		t.Errorf("error %v", err)
	}
}

// What this machine says of itself can be used.
func TestInterfaces(t *testing.T) {
	got, err := interfaces()
	if err != nil || len(got) == 0 {
		t.Errorf("%v, %v; want the loopback address at least", got, err)
	}
}
