package access

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// trust is the part of the files that a TLS handshake needs, all of one reading.
type trust struct {
	config *tls.Config
	// all are the CAs of both kinds.
	all *x509.CertPool
	// clients are the CAs of ordinary clients, and nodes those of the nodes of a cluster. nodes is nil without a file.
	clients, nodes *x509.CertPool
}

// newTrust makes a trust from certificate chain, key, client CAs and, unless nil, nodes' CAs in PEM.
func newTrust(certificate, key, clientCAs, nodeCAs []byte, clock func() time.Time) (*trust, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the server's certificate and key: %w", err)
	}
	t := &trust{clients: x509.NewCertPool(), all: x509.NewCertPool()}
	if !t.clients.AppendCertsFromPEM(clientCAs) || !t.all.AppendCertsFromPEM(clientCAs) {
		return nil, errors.New("the file of client CAs holds no certificate")
	}
	if nodeCAs != nil {
		t.nodes = x509.NewCertPool()
		if !t.nodes.AppendCertsFromPEM(nodeCAs) || !t.all.AppendCertsFromPEM(nodeCAs) {
			return nil, errors.New("the file of the nodes' CAs holds no certificate")
		}
	}
	t.config = &tls.Config{
		Certificates: []tls.Certificate{pair},
		// crypto/tls would verify the chain before anything bounds that work. VerifyConnection does both instead.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := boundChain(s.PeerCertificates); err != nil {
				return err
			}
			_, err := verifyBy(t.all, s.PeerCertificates, clock())
			return err
		},
		ClientCAs:  t.all,
		MinVersion: tls.VersionTLS12,
		Time:       clock,
		// A session ticket would admit a client that was verified under the former CAs.
		SessionTicketsDisabled: true,
	}
	return t, nil
}

// verified says which CAs of a trust verify a client's certificate.
type verified struct {
	by           *trust
	client, node bool
	// until is when that ends for the first of them, and expires when the last of the verified chains ends.
	until, expires time.Time
}

// verify determines which CAs verify a client's certificate now. It returns an error if none does.
func (t *trust) verify(chain []*x509.Certificate, now time.Time) (*verified, error) {
	chains, ofClient := verifyBy(t.clients, chain, now)
	v := &verified{by: t, client: ofClient == nil, until: expiry(chains)}
	if t.nodes != nil {
		if ofNode, err := verifyBy(t.nodes, chain, now); err == nil {
			v.node = true
			if until := expiry(ofNode); !v.client || until.Before(v.until) {
				v.until = until
			}
			chains = append(chains, ofNode...)
		}
	}
	if !v.client && !v.node {
		return nil, ofClient
	}
	v.expires = expiry(chains)
	return v, nil
}

const (
	// maxChain is the number of certificates that a client may send.
	maxChain = 8
	// maxCABits and maxCAExponent bound an RSA key of the CAs that a client sends: each is a candidate for the issuer of
	// each other, and a check of a signature with 8192 bits and the exponent 2³¹-1 takes 10 ms.
	maxCABits, maxCAExponent = 4096, 65537
)

// boundChain returns an error if a client's chain takes too long to verify. A hundred of the largest keys take a
// second, and a client needs no private key to send them.
func boundChain(chain []*x509.Certificate) error {
	if len(chain) == 0 || len(chain) > maxChain {
		return fmt.Errorf("the client's chain has %d certificates; at most %d are allowed", len(chain), maxChain)
	}
	for _, c := range chain[1:] {
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && (key.N.BitLen() > maxCABits || key.E > maxCAExponent) {
			return fmt.Errorf("a CA of the client's chain has an RSA key of %d bits and exponent %d; at most %d and %d are allowed",
				key.N.BitLen(), key.E, maxCABits, maxCAExponent)
		}
	}
	return nil
}

// verifyBy returns the chains to one of the roots.
func verifyBy(roots *x509.CertPool, chain []*x509.Certificate, now time.Time) ([][]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	return chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// expiry returns when the last of the verified chains ends; a chain ends with the first of its certificates.
func expiry(chains [][]*x509.Certificate) time.Time {
	var last time.Time
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}
