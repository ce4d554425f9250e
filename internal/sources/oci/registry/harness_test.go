package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reference parses a tag or a digest.
func reference(t testing.TB, text string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(text, name.StrictValidation)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// open begins a reading that lasts as long as the test.
func open(t testing.TB, cfg Config, login Login, config *tls.Config) *Reading {
	t.Helper()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg.Timeout = time.Minute
	r := New(cfg).Open(t.Context(), login, config)
	t.Cleanup(r.Close)
	return r
}

// refused checks the text of an error, and that it is fit for all callers.
func refused(t testing.TB, what string, err error, want string) {
	t.Helper()
	var own fault.Error
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %q", what, err, want)
		return
	}
	if !errors.As(err, &own) || len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%s: the error is %q", what, err)
	}
}

// answer returns a function for Hub.Intercept that answers requests whose path has a part.
func answer(part string, f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		f(w, r)
		return true
	}
}

// world has names that resolve to addresses, and TLS for them.
type world struct {
	t  testing.TB
	ca *certtest.CA
}

// newWorld replaces the resolver for the time of the test, so such tests can't be parallel.
func newWorld(t *testing.T, names map[string]string) *world {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		resolve(conn, names)
	}()
	former := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = former
		_ = conn.Close()
		<-done
	})
	return &world{t, certtest.NewCA(t, "world")}
}

// resolve answers questions for addresses until the connection is closed.
func resolve(conn net.PacketConn, names map[string]string) {
	buffer := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Additionals = true, nil
		ip := net.ParseIP(names[strings.TrimSuffix(q.Name.String(), ".")])
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
		switch {
		case ip == nil:
			m.RCode = dnsmessage.RCodeNameError
		case ip.To4() != nil && q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte(ip.To4())}}}
		case ip.To4() == nil && q.Type == dnsmessage.TypeAAAA:
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip.To16())}}}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(out, from)
		}
	}
}

// hub returns a registry with a certificate for the names, and its port.
func (w *world) hub(names ...string) (hub *ocitest.Hub, port string) {
	w.t.Helper()
	pair := w.ca.Pair(x509.Certificate{DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	hub = ocitest.New(w.t, ocitest.Config{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}})
	_, port, err := net.SplitHostPort(hub.Addr)
	if err != nil {
		w.t.Fatal(err)
	}
	return hub, port
}

// trust is the client's configuration.
func (w *world) trust() *tls.Config {
	return &tls.Config{RootCAs: w.ca.Pool(), MinVersion: tls.VersionTLS12}
}

// insecure is reference for a registry that may be asked by HTTP.
func insecure(t testing.TB, text string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(text, name.StrictValidation, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}
