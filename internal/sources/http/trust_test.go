package http

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/certtest"
)

// peer returns the name on the client's certificate, or "".
func peer(c net.Conn) string {
	if certs := c.(*tls.Conn).ConnectionState().PeerCertificates; len(certs) > 0 {
		return certs[0].Subject.CommonName
	}
	return ""
}

// TestFilesAreReadAgain: certificates and CAs are read from the current files; files that became invalid leave their
// previous content in use.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	oldCA, newCA, dir := certtest.NewCA(t, "old"), certtest.NewCA(t, "new"), t.TempDir()
	asks := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, oldCA.Pool() }
	client := func(name string) (certFile, keyFile string) {
		cert, key := oldCA.Issue(certtest.Request{CommonName: name})
		return file(t, dir, "client.pem", cert), file(t, dir, "client-key.pem", key)
	}
	peers := make(chan string, 1)
	good := ok(list(pod("web", "v1")))
	s := newServer(t, func(c net.Conn, req *http.Request, gone <-chan struct{}) {
		peers <- peer(c)
		good(c, req, gone)
	})
	s.shake(speaks(oldCA, "127.0.0.1", time.Hour, asks))
	certFile, keyFile := client("first")
	r := run(t, Config{URL: "https://" + s.addr, CAFile: dir + "/ca.pem", CertFile: certFile, KeyFile: keyFile})
	r.fails("ca.pem: no such file")
	file(t, dir, "ca.pem", oldCA.PEM)
	r.expect("default/web=v1")
	if name := <-peers; name != "first" {
		t.Errorf("the client is %q", name)
	}

	client("second")
	r.expect("default/web=v1")
	if name := <-peers; name != "second" {
		t.Errorf("after its files changed, the client is %q", name)
	}

	s.shake(speaks(newCA, "127.0.0.1", time.Hour, asks))
	r.fails("unknown authority")
	file(t, dir, "ca.pem", append(slices.Clone(oldCA.PEM), newCA.PEM...))
	r.expect("default/web=v1")
	<-peers

	file(t, dir, "client-key.pem", []byte("half a key"))
	for range 3 {
		r.expect("default/web=v1")
		<-peers
	}
	if n := r.log.Count("level=WARN", "Changed TLS files can't be used", "client-key.pem"); n != 1 {
		t.Errorf("a bad file was logged %d times:\n%s", n, r.log)
	}
	client("third")
	r.expect("default/web=v1")
	if name := <-peers; name != "third" {
		t.Errorf("after its files were mended, the client is %q", name)
	}
}

// TestCertificateStaysAtHome: the client certificate is only sent to the configured host.
func TestCertificateStaysAtHome(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.NewCA(t, "ca"), t.TempDir()
	cert, key := ca.Issue(certtest.Request{CommonName: "client"})
	asks := func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }
	peers := make(chan string, 2)
	noting := func(then behaviour) behaviour {
		return func(c net.Conn, req *http.Request, gone <-chan struct{}) {
			peers <- peer(c)
			then(c, req, gone)
		}
	}
	other := newServer(t, noting(ok(list())))
	own := newServer(t, noting(answering(302, "", "Location: https://"+other.addr)))
	own.shake(speaks(ca, "127.0.0.1", time.Hour, asks))
	other.shake(speaks(ca, "127.0.0.1", time.Hour, asks))
	r := run(t, Config{
		URL: "https://" + own.addr, CAFile: file(t, dir, "ca.pem", ca.PEM),
		CertFile: file(t, dir, "client.pem", cert), KeyFile: file(t, dir, "key.pem", key),
	})
	r.expect()
	if first, second := <-peers, <-peers; first != "client" || second != "" {
		t.Errorf("the own host saw %q, the other one %q", first, second)
	}
}

// TestCertificateByAnotherHost: after a redirect by another host, the configured host receives neither the
// headers nor the certificate.
func TestCertificateByAnotherHost(t *testing.T) {
	t.Parallel()
	asks := func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }
	ca, dir := certtest.NewCA(t, "ca"), t.TempDir()
	cert, key := ca.Issue(certtest.Request{CommonName: "client"})
	other, own := newServer(t, nil), newServer(t, nil)
	peers := make(chan string, 2)
	own.behave(func(c net.Conn, req *http.Request, gone <-chan struct{}) {
		peers <- req.URL.Path + " " + peer(c) + req.Header.Get("X-Token")
		if req.URL.Path == "/back" {
			ok(list(pod("web", "v1")))(c, req, gone)
			return
		}
		answering(302, "", "Location: https://"+other.addr)(c, req, gone)
	})
	other.behave(answering(302, "", "Location: https://"+own.addr+"/back"))
	own.shake(speaks(ca, "127.0.0.1", time.Hour, asks))
	other.shake(speaks(ca, "127.0.0.1", time.Hour, asks))
	r := run(t, Config{
		URL: "https://" + own.addr + "/first", CAFile: file(t, dir, "ca.pem", ca.PEM), Headers: http.Header{"X-Token": {"token"}},
		CertFile: file(t, dir, "client.pem", cert), KeyFile: file(t, dir, "key.pem", key),
	})
	r.expect("default/web=v1")
	if first, back := <-peers, <-peers; !strings.HasPrefix(first, "/first client") || !strings.HasSuffix(first, "token") || back != "/back " {
		t.Errorf("the requests were %q and %q", first, back)
	}
}
