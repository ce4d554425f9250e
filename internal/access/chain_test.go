package access

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/certtest"
)

// TestHostileChain: a client's chain that takes long to verify is refused before it is verified. A client needs no key
// for it: the handshake fails before the client's signature is checked.
func TestHostileChain(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	a, l := listenTLS(t, ca)
	between := ca.NewCA("between")
	authority := func(bits, exponent int) []byte {
		n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1)) //nolint:gosec // It is positive.
		return ca.Sign(x509.Certificate{
			SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "large"}, NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		}, &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: exponent}).Raw
	}
	for _, c := range []struct {
		what string
		more [][]byte
		want string
	}{
		{"seven others", repeated(between.Certificate.Raw, 7), ""},
		{"eight others", repeated(between.Certificate.Raw, 8), "has 9 certificates; at most 8"},
		{"a CA with 4096 bits", [][]byte{authority(4096, 65537)}, ""},
		{"a CA with 8192 bits", [][]byte{authority(8192, 65537)}, "RSA key of 8192 bits"},
		{"a CA with a large exponent", [][]byte{authority(4096, 1<<31-1)}, "exponent 2147483647"},
	} {
		cfg := ca.Client(ca, certtest.Request{CommonName: "node-a"})
		pair, err := tls.X509KeyPair(ca.Issue(certtest.Request{CommonName: "node-a"}))
		if err != nil {
			t.Fatal(err)
		}
		pair.Certificate = append(pair.Certificate[:1:1], c.more...)
		cfg.ServerName, cfg.NextProtos = "127.0.0.1", []string{"h2"}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		done := make(chan struct{})
		go func() {
			defer close(done)
			if conn, err := tls.Dial("tcp", l.Addr().String(), cfg); err == nil {
				_, _ = conn.Read(make([]byte, 1))
				conn.Close()
			}
		}()
		_, err = handshake(t, a, l)
		<-done
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", c.what, err, c.want)
		}
	}
}

func repeated(der []byte, n int) (out [][]byte) {
	for range n {
		out = append(out, der)
	}
	return out
}
