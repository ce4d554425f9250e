package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// trust is the part of the files that a TLS handshake needs, all of one reading.
type trust struct {
	config *tls.Config
	roots  *x509.CertPool
}

// newTrust makes a trust from certificate chain, key and client CAs in PEM.
func newTrust(certificate, key, clientCAs []byte, clock func() time.Time) (*trust, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the server's certificate and key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(clientCAs) {
		return nil, errors.New("the file of client CAs holds no certificate")
	}
	return &trust{roots: roots, config: &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    roots,
		MinVersion:   tls.VersionTLS12,
		Time:         clock,
		// A session ticket would admit a client that was verified under the former CAs.
		SessionTicketsDisabled: true,
	}}, nil
}

// verify reports whether a chain that was verified under other CAs is good under these.
func (t *trust) verify(chain []*x509.Certificate, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: t.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
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
