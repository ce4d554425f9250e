package http

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/certtest"
)

// speaks is TLS with a certificate for a name or address, which is valid until the given time from now.
func speaks(ca *certtest.CA, name string, valid time.Duration, change ...func(*tls.Config)) func(net.Conn) net.Conn {
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(valid - 2*time.Hour), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	config := &tls.Config{Certificates: []tls.Certificate{ca.Pair(template)}}
	for _, f := range change {
		f(config)
	}
	return func(c net.Conn) net.Conn { return tls.Server(c, config) }
}

// file writes a file in the test's directory.
func file(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
