package nodecert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/certtest"
)

// serving returns this node's Serving.
func (n *node) serving(change ...func(*ServingConfig)) *Serving {
	cfg := ServingConfig{Node: "n1", CertDir: n.path("pki"), Logger: slog.New(slog.NewTextHandler(n.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	return NewServing(cfg)
}

// presented returns the certificate that the node's API presents to a new connection, a second after the last
// one.
func presented(s *Serving) (*x509.Certificate, error) {
	time.Sleep(lookAtMost)
	near, far := net.Pipe()
	server := tls.Server(far, s.TLSConfig())
	result := make(chan error, 1)
	go func() {
		err := server.Handshake()
		_ = far.Close()
		result <- err
	}()
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // The test reads the presented certificate itself.
	err := client.Handshake()
	_ = near.Close()
	if failed := <-result; err != nil {
		return nil, errors.Join(err, failed)
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

func TestServingFromFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ca := newNode(t), certtest.NewCA(t, "ca")
		pair := func(name string) (certPEM, keyPEM []byte) {
			return ca.PairPEM(x509.Certificate{DNSNames: []string{name}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)})
		}
		s := n.serving(func(c *ServingConfig) { c.CertFile, c.KeyFile = n.path("c"), n.path("k") })
		run(t, s.Run)
		if _, err := presented(s); err == nil || !strings.Contains(err.Error(), errNoCertificate.Error()) {
			t.Errorf("a handshake without a certificate: %v", err)
		}
		certPEM, keyPEM := pair("one")
		n.write(n.path("c"), certPEM)
		n.write(n.path("k"), keyPEM)
		if c, err := presented(s); err != nil || c.DNSNames[0] != "one" {
			t.Errorf("the certificate that has come isn't presented: %v", err)
		}
		certPEM, keyPEM = pair("two")
		n.write(n.path("c"), certPEM)
		for range 5 {
			if c, err := presented(s); err != nil || c.DNSNames[0] != "one" {
				t.Errorf("a certificate without its key isn't passed over: %v", err)
			}
		}
		n.write(n.path("k"), keyPEM)
		if c, err := presented(s); err != nil || c.DNSNames[0] != "two" {
			t.Errorf("the certificate that has changed isn't presented: %v", err)
		}
		if n.log.Count("level=WARN") != 2 || n.log.Count("the failure is over") != 2 {
			t.Errorf("the two failures aren't logged once each")
		}
	})
}

func TestServingSelfSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		serial := func(change ...func(*ServingConfig)) string {
			t.Helper()
			s := n.serving(change...)
			run(t, s.Run)
			c, err := presented(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.VerifyHostname(s.cfg.Node); err != nil {
				t.Error(err)
			}
			return c.SerialNumber.String()
		}
		first := serial()
		if again := serial(); again != first {
			t.Error("a restart makes another certificate")
		}
		if info, err := os.Stat(n.path("pki/kubelet.key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key: %v, %v; want 0600", info, err)
		}
		other := serial(func(c *ServingConfig) { c.Node = "n2" })
		if other == first {
			t.Error("a host of another name keeps the certificate")
		}
		cert, key := n.read(n.path("pki/kubelet.crt")), n.read(n.path("pki/kubelet.key"))
		for name, damage := range map[string]func(){
			"killed between key and certificate": func() { n.write(n.path("pki/kubelet.key"), n.otherKey()) },
			"half a certificate":                 func() { n.write(n.path("pki/kubelet.crt"), cert[:len(cert)/4]) },
			"no key":                             func() { n.remove(n.path("pki/kubelet.key")) },
		} {
			n.write(n.path("pki/kubelet.crt"), cert)
			n.write(n.path("pki/kubelet.key"), key)
			damage()
			if serial(func(c *ServingConfig) { c.Node = "n2" }) == other {
				t.Errorf("%s: the certificate isn't made again", name)
			}
		}
	})
}

// otherKey returns the key of another certificate.
func (n *node) otherKey() []byte {
	_, key := certtest.NewCA(n.t, "ca").PairPEM(forNode("n1", time.Hour))
	return key
}

// podexecd's self-signed certificate is replaced before it expires, also while podexecd runs, and also if it
// can't be written.
func TestServingSelfSignedAges(t *testing.T) {
	for name, change := range map[string]func(*node){
		"on disk":          func(*node) {},
		"can't be written": func(n *node) { n.write(n.path("pki"), []byte("a file, where a directory should be")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				change(n)
				s := n.serving()
				seen := map[string]bool{}
				for range 18 {
					for range 2 {
						c, err := presented(s)
						if err != nil {
							t.Fatal(err)
						}
						if time.Now().After(c.NotAfter) {
							t.Fatalf("at %v the certificate has expired at %v", time.Now(), c.NotAfter)
						}
						seen[c.SerialNumber.String()] = true
					}
					time.Sleep(30 * 24 * time.Hour)
				}
				if len(seen) != 2 {
					t.Errorf("%d certificates were made in one and a half years; want two", len(seen))
				}
			})
		})
	}
}

// The TLS configuration has the values of ServingConfig.
func TestTLSConfig(t *testing.T) {
	c := newNode(t).serving(func(c *ServingConfig) {
		c.MinVersion, c.CipherSuites, c.Curves = tls.VersionTLS13, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, []tls.CurveID{tls.X25519}
	}).TLSConfig()
	if c.MinVersion != tls.VersionTLS13 || len(c.CipherSuites) != 1 || len(c.CurvePreferences) != 1 {
		t.Errorf("%+v", c)
	}
	if c := newNode(t).serving().TLSConfig(); c.MinVersion != tls.VersionTLS12 || c.CipherSuites != nil {
		t.Errorf("by default %+v", c)
	}
}

// Run of a Serving without signing requests returns at once.
func TestServingRunReturns(t *testing.T) {
	n := newNode(t)
	n.serving().Run(t.Context())
	if !exists(n.path("pki/kubelet.crt")) {
		t.Error("Run didn't make the certificate")
	}
}
