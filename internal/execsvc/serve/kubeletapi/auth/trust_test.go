package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/certtest"
)

func TestClientCertificates(t *testing.T) {
	s := newSetup(t, nil)
	stranger := certtest.NewCA(t, "ca")
	clientAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	sign := func(c x509.Certificate) *x509.Certificate { return s.ca.Pair(c).Leaf }
	sub := s.ca.NewCA("sub")
	for name, tc := range map[string]struct {
		chain []*x509.Certificate
		want  int
	}{
		"good":             {[]*x509.Certificate{client(s.ca, "kube-apiserver", "system:masters")}, http.StatusOK},
		"by a sub-CA":      {[]*x509.Certificate{client(sub, "kube-apiserver"), sub.Certificate}, http.StatusOK},
		"sub-CA not shown": {[]*x509.Certificate{client(sub, "kube-apiserver")}, http.StatusUnauthorized},
		"another CA of the same name": {[]*x509.Certificate{client(stranger, "kube-apiserver", "system:masters"), stranger.Certificate},
			http.StatusUnauthorized},
		"without a name": {[]*x509.Certificate{sign(x509.Certificate{ExtKeyUsage: clientAuth})}, http.StatusUnauthorized},
		"a server's": {[]*x509.Certificate{sign(x509.Certificate{
			Subject: pkix.Name{CommonName: "x"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})}, http.StatusUnauthorized},
		"expired": {[]*x509.Certificate{sign(x509.Certificate{
			Subject: pkix.Name{CommonName: "x"}, ExtKeyUsage: clientAuth, NotBefore: t0.Add(-time.Hour), NotAfter: t0.Add(-time.Minute),
		})}, http.StatusUnauthorized},
		"not yet valid": {[]*x509.Certificate{sign(x509.Certificate{
			Subject: pkix.Name{CommonName: "x"}, ExtKeyUsage: clientAuth, NotBefore: t0.Add(time.Minute), NotAfter: t0.Add(time.Hour),
		})}, http.StatusUnauthorized},
		"none": {nil, http.StatusUnauthorized},
	} {
		if got := status(s.Auth, ask(http.MethodGet, "/pods", "", tc.chain...)); got != tc.want {
			t.Errorf("%s: %d; want %d", name, got, tc.want)
		}
	}
	user, refusal := s.Check(ask(http.MethodGet, "/pods", "", client(s.ca, "kube-apiserver", "system:masters")))
	if refusal != nil {
		t.Fatal(refusal)
	}
	if diff := cmp.Diff(&User{Name: "kube-apiserver", Groups: []string{"system:masters", authenticated}, Certificate: true}, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
}

// A certificate is rejected after it expires, also on an open connection.
func TestCertificateExpiresOnItsConnection(t *testing.T) {
	s := newSetup(t, nil)
	cert := client(s.ca, "kube-apiserver")
	if got := status(s.Auth, ask(http.MethodGet, "/pods", "", cert)); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	s.clock.SetTime(cert.NotAfter.Add(time.Second))
	if got := status(s.Auth, ask(http.MethodGet, "/pods", "", cert)); got != http.StatusUnauthorized {
		t.Errorf("after: %d; want 401", got)
	}
}

// The file of CAs may be created late, change, and be invalid for some time.
func TestClientCAFile(t *testing.T) {
	s := newSetup(t, nil)
	second := certtest.NewCA(t, "second")
	first := client(s.ca, "first")
	want := func(when string, oldOne, newOne int) {
		t.Helper()
		s.clock.SetTime(s.clock.Now().Add(reread))
		for _, c := range []struct {
			of   *x509.Certificate
			want int
		}{{first, oldOne}, {client(second, "second"), newOne}} {
			if got := status(s.Auth, ask(http.MethodGet, "/pods", "", c.of)); got != c.want {
				t.Errorf("%s: %s gets %d; want %d", when, c.of.Subject.CommonName, got, c.want)
			}
		}
	}
	want("at first", 200, 401)
	write(t, s.caFile, nil)
	want("emptied", 200, 401)
	both := append(second.PEM, s.ca.PEM...)
	write(t, s.caFile, both[:len(both)-40])
	want("half written", 200, 401)
	write(t, s.caFile, []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"))
	want("no certificate in it", 200, 401)
	write(t, s.caFile, both)
	want("both", 200, 200)
	write(t, s.caFile, second.PEM)
	want("the first taken away", 401, 200)
	if err := os.Remove(s.caFile); err != nil {
		t.Fatal(err)
	}
	want("gone", 401, 200)

	late := newSetup(t, func(c *Config) { c.ClientCAFile += ".late" })
	cert := client(late.ca, "late")
	if got := status(late.Auth, ask(http.MethodGet, "/pods", "", cert)); got != http.StatusUnauthorized {
		t.Errorf("before the file exists: %d; want 401", got)
	}
	write(t, late.caFile+".late", late.ca.PEM)
	late.clock.SetTime(late.clock.Now().Add(reread))
	if got := status(late.Auth, ask(http.MethodGet, "/pods", "", cert)); got != http.StatusOK {
		t.Errorf("once the file exists: %d; want 200", got)
	}
}
