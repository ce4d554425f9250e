package nodecert

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"
)

const (
	// lookEvery is the period at which unused files are checked: the kubelet's for its certificate.
	lookEvery = 10 * time.Second
	// lookAtMost is the least time between two checks of files in use.
	lookAtMost = time.Second
)

// subject returns the subject of a node's certificates.
func subject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// expired reports whether a certificate is nil or has expired.
func expired(c *tls.Certificate, now time.Time) bool { return c == nil || now.After(c.Leaf.NotAfter) }

// renewAt returns when a certificate is renewed: after 70 to 90 % of its lifetime, at random, so that nodes don't
// all renew at once.
func renewAt(c *tls.Certificate) time.Time {
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	return c.Leaf.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*rand.Float64()))) //nolint:gosec // No secret.
}

// satisfies reports whether a certificate has all names of the request. Further names don't matter.
func satisfies(c *tls.Certificate, request *x509.CertificateRequest) bool {
	leaf := c.Leaf
	return leaf.Subject.CommonName == request.Subject.CommonName && within(request.Subject.Organization, leaf.Subject.Organization) &&
		within(request.DNSNames, leaf.DNSNames) && !slices.ContainsFunc(request.IPAddresses, func(ip net.IP) bool {
		return !slices.ContainsFunc(leaf.IPAddresses, ip.Equal)
	})
}

func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// younger returns the later of two certificates that is valid. Either may be nil.
func younger(a, b *tls.Certificate, now time.Time) *tls.Certificate {
	switch {
	case b == nil, !expired(a, now) && (expired(b, now) || !b.Leaf.NotBefore.After(a.Leaf.NotBefore)):
		return a
	default:
		return b
	}
}

// servingRequest returns a request for the addresses. It is nil while there is no IP address among them.
func servingRequest(node string, addresses []v1.NodeAddress) *x509.CertificateRequest {
	request := &x509.CertificateRequest{Subject: subject(node)}
	for _, a := range addresses {
		ip := netutils.ParseIPSloppy(a.Address)
		switch a.Type {
		case v1.NodeInternalIP, v1.NodeExternalIP:
		case v1.NodeHostName:
			if ip == nil && a.Address != "" {
				request.DNSNames = append(request.DNSNames, a.Address)
			}
		case v1.NodeInternalDNS, v1.NodeExternalDNS:
			if ip = nil; a.Address != "" {
				request.DNSNames = append(request.DNSNames, a.Address)
			}
		default:
			ip = nil
		}
		if ip != nil {
			request.IPAddresses = append(request.IPAddresses, ip)
		}
	}
	if len(request.IPAddresses) == 0 {
		return nil
	}
	// Sorted and unique, because the name of the request is derived from them.
	slices.Sort(request.DNSNames)
	request.DNSNames = slices.Compact(request.DNSNames)
	slices.SortFunc(request.IPAddresses, func(a, b net.IP) int { return slices.Compare(a.To16(), b.To16()) })
	request.IPAddresses = slices.CompactFunc(request.IPAddresses, net.IP.Equal)
	return request
}
