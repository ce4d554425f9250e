package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// lookupTimeout bounds the search for the node's name in DNS.
const lookupTimeout = 2 * time.Second

// AddressConfig says how a node's addresses are found.
type AddressConfig struct {
	// NodeIPs are those of --node-ip: none, one, or two of different families. A single unspecified one ("::") only chooses the family.
	NodeIPs []netip.Addr
	// Node is the node's name, which is looked up; Hostname counts if it is an address itself.
	Node, Hostname string

	// Interfaces are this machine's addresses, Lookup those of a name, and Default the one of the default route, of the family of the address
	// if it is valid. Nil means the machine's own.
	Interfaces func() ([]netip.Addr, error)
	Lookup     func(ctx context.Context, name string) ([]netip.Addr, error)
	Default    func(family netip.Addr) (netip.Addr, error)
}

// Addresses finds the node's own addresses.
type Addresses struct{ cfg AddressConfig }

// NewAddresses returns Addresses, which have looked for none yet.
func NewAddresses(cfg AddressConfig) *Addresses {
	if cfg.Interfaces == nil {
		cfg.Interfaces = interfaces
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if cfg.Default == nil {
		cfg.Default = defaultAddress
	}
	return &Addresses{cfg}
}

// IPs looks for the addresses anew; the primary one comes first. In this order: what --node-ip says, the hostname if it is an address, what DNS
// has for the node's name if this machine has it too, and the address of the default route.
func (a *Addresses) IPs(ctx context.Context) ([]netip.Addr, error) {
	var family netip.Addr
	var given []netip.Addr
	for i, ip := range a.cfg.NodeIPs {
		if i == 0 {
			family = ip
		}
		if ip.IsUnspecified() {
			continue
		}
		if err := a.check(ip); err != nil {
			return nil, fmt.Errorf("--node-ip: %w", err)
		}
		given = append(given, ip)
	}
	if len(given) > 0 {
		return given, nil
	}
	if ip, err := netip.ParseAddr(a.cfg.Hostname); err == nil {
		return []netip.Addr{ip}, nil
	}
	if ip, ok := a.byName(ctx, family); ok {
		return []netip.Addr{ip}, nil
	}
	ip, err := a.cfg.Default(family)
	if err != nil {
		return nil, fmt.Errorf("find the address of the default route: %w", err)
	}
	return []netip.Addr{ip}, nil
}

// byName is an address of the node's name that is this machine's: of the family, or else any.
func (a *Addresses) byName(ctx context.Context, family netip.Addr) (netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	// That a name isn't in DNS is usual.
	found, _ := a.cfg.Lookup(ctx, a.cfg.Node)
	var good []netip.Addr
	for _, ip := range found {
		if ip = ip.Unmap(); a.check(ip) == nil {
			good = append(good, ip)
		}
	}
	if len(good) == 0 {
		return netip.Addr{}, false
	}
	wanted := slices.IndexFunc(good, func(ip netip.Addr) bool { return ip.Is4() == (!family.IsValid() || family.Is4()) })
	return good[max(wanted, 0)], true
}

// check tells why an address can't be the node's.
func (a *Addresses) check(ip netip.Addr) error {
	switch {
	case ip.IsLoopback():
		return fmt.Errorf("%s is a loopback address", ip)
	case ip.IsMulticast():
		return fmt.Errorf("%s is a multicast address", ip)
	case ip.IsLinkLocalUnicast():
		return fmt.Errorf("%s is a link-local address", ip)
	case ip.IsUnspecified():
		return fmt.Errorf("%s is no machine's address", ip)
	}
	own, err := a.cfg.Interfaces()
	if err != nil {
		return fmt.Errorf("list this machine's addresses: %w", err)
	}
	if !slices.Contains(own, ip) {
		return fmt.Errorf("%s isn't an address of this machine", ip)
	}
	return nil
}

// interfaces are the addresses of this machine's network interfaces.
func interfaces() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, one := range list {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	return out, nil
}

func defaultAddress(family netip.Addr) (netip.Addr, error) {
	found, err := utilnet.ResolveBindAddress(net.IP(family.AsSlice()))
	if err != nil {
		return netip.Addr{}, err
	}
	ip, ok := netip.AddrFromSlice(found)
	if !ok {
		return netip.Addr{}, errors.New("it is no address")
	}
	return ip.Unmap(), nil
}
