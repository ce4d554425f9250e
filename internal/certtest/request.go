package certtest

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"time"
)

// Request describes a certificate. The zero value is a client without a name, valid for a year.
type Request struct {
	CommonName, Organization, URI, DNS string
	// Server makes it a server's certificate, for loopback, rather than a client's.
	Server bool
	// NotBefore: zero means since yesterday.
	NotBefore time.Time
	// NotAfter: zero means in a year.
	NotAfter time.Time
}

// Issue returns a new key and its certificate, in PEM.
func (ca *CA) Issue(r Request) (certificate, key []byte) {
	ca.t.Helper()
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: r.CommonName}, NotBefore: r.NotBefore, NotAfter: r.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-24 * time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().AddDate(1, 0, 0)
	}
	if r.Organization != "" {
		template.Subject.Organization = []string{r.Organization}
	}
	if r.DNS != "" {
		template.DNSNames = []string{r.DNS}
	}
	if r.URI != "" {
		uri, err := url.Parse(r.URI)
		if err != nil {
			ca.t.Fatal(err)
		}
		template.URIs = []*url.URL{uri}
	}
	if r.Server {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	return ca.PairPEM(template)
}

// Client is a client's TLS configuration: it trusts ca, and presents a certificate that issuer issues for r. With a
// nil issuer it presents none.
func (ca *CA) Client(issuer *CA, r Request) *tls.Config {
	ca.t.Helper()
	cfg := &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
	if issuer != nil {
		pair, err := tls.X509KeyPair(issuer.Issue(r))
		if err != nil {
			ca.t.Fatal(err)
		}
		// It is presented whatever authority the server asks for.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}
