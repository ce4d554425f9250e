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
	// lookEvery is how often files are looked at that nobody uses: as often as the kubelet looks whether its certificate has changed.
	lookEvery = 10 * time.Second
	// lookAtMost is how often they are looked at that are in use.
	lookAtMost = time.Second
)

// subject is whom the certificates of a node name.
func subject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// expired tells whether a certificate is no good any more; none isn't either.
func expired(c *tls.Certificate, now time.Time) bool { return c == nil || now.After(c.Leaf.NotAfter) }

// renewAt is when a certificate is renewed: when 70 to 90 % of its life are over, at random, so that not all nodes come at once.
func renewAt(c *tls.Certificate) time.Time {
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	return c.Leaf.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*rand.Float64()))) //nolint:gosec // No secret.
}

// satisfies tells whether a certificate names all that the request does. What it names besides is no reason to ask again.
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

// younger is that of two certificates, either of which may be nil, that is good and was made last.
func younger(a, b *tls.Certificate, now time.Time) *tls.Certificate {
	switch {
	case b == nil, !expired(a, now) && (expired(b, now) || !b.Leaf.NotBefore.After(a.Leaf.NotBefore)):
		return a
	default:
		return b
	}
}

// servingRequest asks for a certificate for the addresses. It is nil while there is no IP address among them.
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
	// One order, each once: the name of the request follows from it.
	slices.Sort(request.DNSNames)
	request.DNSNames = slices.Compact(request.DNSNames)
	slices.SortFunc(request.IPAddresses, func(a, b net.IP) int { return slices.Compare(a.To16(), b.To16()) })
	request.IPAddresses = slices.CompactFunc(request.IPAddresses, net.IP.Equal)
	return request
}
