package kubeletapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func (n *node) tls(cert *tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(n.ca.Certificate)
	cfg := &tls.Config{RootCAs: roots}
	if cert != nil {
		// It is sent regardless of the CAs that the server names, as a stranger would do.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	return cfg
}

// client returns an HTTP client, with a certificate unless it is nil, over HTTP/1.1 or HTTP/2.
func (n *node) client(cert *tls.Certificate, h2 bool) *http.Client {
	transport := &http.Transport{TLSClientConfig: n.tls(cert), ForceAttemptHTTP2: h2}
	if !h2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	n.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// admin returns a client that may do everything.
func (n *node) admin() *http.Client { return n.client(certificate(n.ca, "admin"), true) }

// do sends a request, and returns status and body.
func (n *node) do(client *http.Client, method, path, token string, body io.Reader) (int, string) {
	n.t.Helper()
	return fetch(n.t, client, method, "https://"+n.address+path, token, body)
}

func fetch(t *testing.T, client *http.Client, method, url, token string, body io.Reader) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode, string(text)
}

// get sends a GET as admin.
func (n *node) get(path string) (int, string) {
	n.t.Helper()
	return n.do(n.admin(), http.MethodGet, path, "", nil)
}

// raw sends bytes over TLS and returns the first line of the answer; empty if the connection is closed without one.
func (n *node) raw(cert *tls.Certificate, request string) string {
	n.t.Helper()
	c, err := tls.Dial("tcp", n.address, n.tls(cert))
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		return ""
	}
	answer, err := io.ReadAll(io.LimitReader(c, 1<<16))
	if err != nil && len(answer) == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		n.t.Errorf("%.100q gets no answer", request)
	}
	line, _, _ := strings.Cut(string(answer), "\r\n")
	return line
}
