package failover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// maxAddresses is how many addresses of one host name are used: the first ones in the client's order.
	maxAddresses = 32
	// lookupTimeout is the time limit for looking up one host name.
	lookupTimeout = 5 * time.Second
)

// Endpoint is one element of the configuration.
type Endpoint struct {
	// Text is the endpoint as configured.
	Text string
	// Host and Port are those of a TCP endpoint. Both are empty for a Unix socket, whose Text is its gRPC target.
	Host, Port string
}

// Candidate is one address of an endpoint.
type Candidate struct {
	// Target is the gRPC target.
	Target string
	// Authority is the host and port that the server's certificate is checked against. Empty for a Unix socket.
	Authority string

	name  string
	place place
}

// String returns the endpoint, with the address if the endpoint has a host name.
func (c Candidate) String() string { return c.name }

// place is a candidate's place in the client's order.
type place struct {
	// endpoint is the endpoint's index in the configuration; 0 for all if the configuration has no order.
	endpoint int
	// hash differs from client to client.
	hash uint64
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.endpoint, o.endpoint), cmp.Compare(p.hash, o.hash))
}

// book finds the candidates.
type book struct {
	endpoints []Endpoint
	listed    bool
	key       string
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)

	mu sync.Mutex
	// known are the addresses that the last successful lookup of a host returned.
	known map[string][]netip.Addr
}

// candidates returns the candidates in the client's order, and the errors of the endpoints that have none.
func (b *book) candidates(ctx context.Context) ([]Candidate, []error) {
	found := make([][]Candidate, len(b.endpoints))
	failed := make([]error, len(b.endpoints))
	var lookups sync.WaitGroup
	for i, e := range b.endpoints {
		lookups.Go(func() { found[i], failed[i] = b.of(ctx, i, e) })
	}
	lookups.Wait()
	all := slices.Concat(found...)
	slices.SortFunc(all, func(x, y Candidate) int { return x.place.compare(y.place) })
	return all, slices.DeleteFunc(failed, func(err error) bool { return err == nil })
}

// of returns the candidates of one endpoint.
func (b *book) of(ctx context.Context, index int, e Endpoint) ([]Candidate, error) {
	if e.Host == "" {
		return []Candidate{{Target: e.Text, name: e.Text, place: b.place(index, e.Text)}}, nil
	}
	addresses, err := b.addresses(ctx, e.Host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Text, err)
	}
	var out []Candidate
	for _, a := range addresses {
		c := Candidate{
			Target: "passthrough:///" + net.JoinHostPort(a.String(), e.Port), Authority: net.JoinHostPort(e.Host, e.Port), name: e.Text,
		}
		if a.String() != e.Host {
			c.name += " (" + a.String() + ")"
		}
		c.place = b.place(index, c.name)
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y Candidate) int { return x.place.compare(y.place) })
	return out[:min(len(out), maxAddresses)], nil
}

// varies reports whether an endpoint is a host name, whose addresses may change.
func (b *book) varies() bool {
	return slices.ContainsFunc(b.endpoints, func(e Endpoint) bool {
		_, err := netip.ParseAddr(e.Host)
		return e.Host != "" && err != nil
	})
}

// addresses returns the addresses of a host: those of the last successful lookup if this one fails. The server's
// certificate is checked against the name in either case.
func (b *book) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := b.lookup(ctx, host)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil && len(addresses) > 0:
		for i, a := range addresses {
			addresses[i] = a.Unmap()
		}
		slices.SortFunc(addresses, netip.Addr.Compare)
		b.known[host] = slices.Compact(addresses)
	case len(b.known[host]) > 0:
	case err == nil:
		return nil, errors.New("the name has no address")
	default:
		return nil, err
	}
	return b.known[host], nil
}

func (b *book) place(endpoint int, name string) place {
	sum := sha256.Sum256([]byte(b.key + "\x00" + name))
	p := place{hash: binary.BigEndian.Uint64(sum[:])}
	if b.listed {
		p.endpoint = endpoint
	}
	return p
}
