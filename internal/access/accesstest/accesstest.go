// Package accesstest makes certificate authorities and certificates for tests.
package accesstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"testing"
	"time"
)

// CA is a certificate authority.
type CA struct {
	t           *testing.T
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	// PEM is the CA's certificate.
	PEM []byte
}

// NewCA returns a new authority.
func NewCA(t *testing.T, name string) *CA {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := sign(t, template, template, key, key)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &CA{t, key, certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// Request describes a certificate. The zero value is a client without a name, valid for a year.
type Request struct {
	CommonName, Organization, URI, DNS string
	// Server makes it a server's certificate, for loopback, rather than a client's.
	Server bool
	// NotAfter: zero means in a year.
	NotAfter time.Time
}

// Issue returns a new key and its certificate, in PEM.
func (ca *CA) Issue(r Request) (certificate, key []byte) {
	ca.t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(ca.t), Subject: pkix.Name{CommonName: r.CommonName}, NotBefore: time.Now().Add(-24 * time.Hour),
		NotAfter: r.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
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
	own := newKey(ca.t)
	der, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		ca.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(ca.t, template, ca.certificate, own, ca.key)}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// Client is a client's TLS configuration: it trusts ca, and presents a certificate that issuer issues for r. With a
// nil issuer it presents none.
func (ca *CA) Client(issuer *CA, r Request) *tls.Config {
	ca.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
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

// WriteFile replaces a file atomically, by a rename.
func WriteFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t *testing.T) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sign(t *testing.T, template, parent *x509.Certificate, own, issuer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, issuer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
