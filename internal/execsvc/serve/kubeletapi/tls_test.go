package kubeletapi

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/podstream/podstream/internal/certtest"
)

// nodecert's TLS settings apply: versions, suites, and a configuration for each client. A list of suites
// without HTTP/2's required ones is accepted.
func TestTLSConfiguration(t *testing.T) {
	for name, change := range map[string]func(*tls.Config){
		"as it is": func(*tls.Config) {},
		"suites": func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
		},
		"a certificate that comes when it is asked for": func(c *tls.Config) {
			cert := c.Certificates[0]
			c.Certificates, c.GetCertificate = nil, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
		},
		"a configuration for each client": func(c *tls.Config) {
			own := c.Clone()
			c.Certificates, c.GetConfigForClient = nil, func(*tls.ClientHelloInfo) (*tls.Config, error) { return own, nil }
		},
	} {
		n := start(t, func(c *Config) { change(c.TLS) })
		for _, h2 := range []bool{false, true} {
			if status, _ := n.do(n.client(certificate(n.ca, "admin"), h2), http.MethodGet, "/healthz", "", nil); status != http.StatusOK {
				t.Errorf("%s, HTTP/2 %v: %d", name, h2, status)
			}
		}
		for _, protocol := range []string{"h2", "http/1.1"} {
			cfg, named := n.tls(nil), 0
			cfg.NextProtos = []string{protocol}
			cfg.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				named = len(r.AcceptableCAs)
				return &tls.Certificate{}, nil
			}
			c, err := tls.Dial("tcp", n.address, cfg)
			if err != nil {
				t.Fatal(err)
			}
			state := c.ConnectionState()
			if state.NegotiatedProtocol != protocol || named != 1 {
				t.Errorf("%s: %s, %d CAs named; want %s and one", name, state.NegotiatedProtocol, named, protocol)
			}
			if name == "suites" && state.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 {
				t.Errorf("the suite is %s", tls.CipherSuiteName(state.CipherSuite))
			}
			_ = c.Close()
		}
		n.end()
	}
}

// A certificate that is no longer valid is rejected in a resumed session too.
func TestResumedSession(t *testing.T) {
	n := start(t, nil)
	cfg := n.tls(certificate(certtest.NewCA(t, "ca"), "admin"))
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
	resumed := false
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		resumed = resumed || s.DidResume
		return nil
	}
	for range 4 {
		if status, _ := n.do(client, http.MethodGet, "/pods", "", nil); status != http.StatusUnauthorized {
			t.Errorf("%d; want 401", status)
		}
	}
	if !resumed {
		t.Error("no session was resumed: nothing is shown")
	}
}
