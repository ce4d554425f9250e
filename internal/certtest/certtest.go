// Package certtest makes certificate authorities and certificates for tests.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"testing"
	"time"
)

// CA is a certificate authority.
type CA struct {
	t   testing.TB
	key *ecdsa.PrivateKey
	// Certificate is the CA's certificate, and PEM the same in PEM.
	Certificate *x509.Certificate
	PEM         []byte
}

// NewCA returns a new authority. Its certificate is valid from 1970, for tests with a clock of their own, and for
// another ten years.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	template, key := authority(name), newKey(t)
	return newCA(t, sign(t, template, template, key.Public(), key), key)
}

// NewCA returns an authority whose certificate is signed by ca.
func (ca *CA) NewCA(name string) *CA {
	ca.t.Helper()
	key := newKey(ca.t)
	return newCA(ca.t, sign(ca.t, authority(name), ca.Certificate, key.Public(), ca.key), key)
}

func newCA(t testing.TB, certificate *x509.Certificate, key *ecdsa.PrivateKey) *CA {
	return &CA{t: t, key: key, Certificate: certificate, PEM: PEM(certificate)}
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

// Pool returns a pool with the CA's certificate only.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Certificate)
	return pool
}

// Sign returns the certificate of a public key. The CA sets its serial number, and its times if the template has no
// NotAfter: from 1970, for another year.
func (ca *CA) Sign(template x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	ca.t.Helper()
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Unix(0, 0), time.Now().AddDate(1, 0, 0)
	}
	return sign(ca.t, &template, ca.Certificate, public, ca.key)
}

// Pair returns a new key with its certificate, as Sign makes it.
func (ca *CA) Pair(template x509.Certificate) tls.Certificate {
	ca.t.Helper()
	key := newKey(ca.t)
	certificate := ca.Sign(template, key.Public())
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate}
}

// PairPEM is Pair, in PEM.
func (ca *CA) PairPEM(template x509.Certificate) (certificate, key []byte) {
	ca.t.Helper()
	pair := ca.Pair(template)
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		ca.t.Fatal(err)
	}
	return PEM(pair.Leaf), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// PEM returns the certificate in PEM.
func PEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// WriteFile replaces a file atomically, by a rename.
func WriteFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign signs the template, with a serial number of its own.
func sign(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, issuer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, issuer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
