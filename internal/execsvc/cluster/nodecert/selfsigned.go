package nodecert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// ownCertPath and ownKeyPath are the paths of the kubelet's self-signed certificate, too.
func ownCertPath(dir string) string { return filepath.Join(dir, "kubelet.crt") }

func ownKeyPath(dir string) string { return filepath.Join(dir, "kubelet.key") }

// lastTenth returns when the last tenth of a certificate's lifetime begins.
func lastTenth(c *tls.Certificate) time.Time {
	return c.Leaf.NotAfter.Add(-c.Leaf.NotAfter.Sub(c.Leaf.NotBefore) / 10)
}

// ownCertificate returns podexecd's self-signed certificate. It is kept while it is valid for this host; a new one
// is made in the last tenth of its lifetime. If it can't be written, the next start makes another one.
func ownCertificate(dir, host string, now time.Time, log *slog.Logger) (*tls.Certificate, error) {
	certPath, keyPath := ownCertPath(dir), ownKeyPath(dir)
	if c, err := tls.LoadX509KeyPair(certPath, keyPath); err == nil && c.Leaf.VerifyHostname(host) == nil && now.Before(lastTenth(&c)) {
		return &c, nil
	}
	certPEM, keyPEM, err := signOwn(host, now)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	c, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	if err := writeOwn(certPath, keyPath, certPEM, keyPEM); err != nil {
		log.Warn("the certificate that was made for the node's API can't be kept", "error", err)
		return &c, nil
	}
	log.Info("made a certificate for the node's API", "path", certPath, "expires", c.Leaf.NotAfter)
	return &c, nil
}

// signOwn makes a certificate of a year, and its key. It is valid from an hour ago, for callers whose clocks are
// slow.
func signOwn(host string, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der}), keyPEM, err
}

// writeOwn writes the key first: if a certificate has no matching key, both are made again.
func writeOwn(certPath, keyPath string, certPEM, keyPEM []byte) error {
	if err := os.MkdirAll(filepath.Dir(certPath), 0o755); err != nil {
		return err
	}
	if err := renameio.WriteFile(keyPath, keyPEM, 0o600); err != nil {
		return err
	}
	return renameio.WriteFile(certPath, certPEM, 0o644)
}
