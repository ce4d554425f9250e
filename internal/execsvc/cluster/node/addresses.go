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

// AddressConfig configures Addresses.
type AddressConfig struct {
	// NodeIPs are the addresses of --node-ip: none, one, or two of different families. A single unspecified one
	// ("::") only selects the family.
	NodeIPs []netip.Addr
	// Node is the node's name, which is looked up in DNS. Hostname is used if it is an address itself.
	Node, Hostname string

	// Interfaces returns this machine's addresses. Lookup returns the addresses of a name. Default returns the
	// address of the default route, of the family of the given address if that is valid. Nil means the machine's
	// own.
	Interfaces func() ([]netip.Addr, error)
	Lookup     func(ctx context.Context, name string) ([]netip.Addr, error)
	Default    func(family netip.Addr) (netip.Addr, error)
}

// Addresses finds the node's own addresses.
type Addresses struct{ cfg AddressConfig }

// NewAddresses returns Addresses.
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

// IPs finds the addresses; the primary one comes first. It uses, in this order: --node-ip; the hostname if it is an
// address; the address of the node's name in DNS if this machine has it; and the address of the default route.
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

// byName returns an address of the node's name that is this machine's: one of the family, or else any.
func (a *Addresses) byName(ctx context.Context, family netip.Addr) (netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	// The node's name often isn't in DNS.
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

// check returns the reason why an address can't be the node's.
func (a *Addresses) check(ip netip.Addr) error {
	switch {
	case ip.IsLoopback():
		return fmt.Errorf("%s is a loopback address", ip)
	case ip.IsMulticast():
		return fmt.Errorf("%s is a multicast address", ip)
	case ip.IsLinkLocalUnicast():
		return fmt.Errorf("%s is a link-local address", ip)
	case ip.IsUnspecified():
		return fmt.Errorf("%s can't be the address of a machine", ip)
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

// interfaces returns the addresses of this machine's network interfaces.
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
		return netip.Addr{}, errors.New("it isn't an address")
	}
	return ip.Unmap(), nil
}
