package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClientCertificates(t *testing.T) {
	s := newSetup(t, nil)
	stranger := newAuthority(t, "ca")
	clientAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	sign := func(c *x509.Certificate) *x509.Certificate {
		signed, _ := s.ca.sign(c)
		return signed
	}
	sub := &authority{t: t}
	*sub = authority{t: t}
	sub.cert, sub.key = s.ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "sub"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	for name, tc := range map[string]struct {
		chain []*x509.Certificate
		want  int
	}{
		"good":             {[]*x509.Certificate{s.ca.client("kube-apiserver", "system:masters")}, http.StatusOK},
		"by a sub-CA":      {[]*x509.Certificate{sub.client("kube-apiserver"), sub.cert}, http.StatusOK},
		"sub-CA not shown": {[]*x509.Certificate{sub.client("kube-apiserver")}, http.StatusUnauthorized},
		"another CA of the same name": {[]*x509.Certificate{stranger.client("kube-apiserver", "system:masters"), stranger.cert},
			http.StatusUnauthorized},
		"without a name": {[]*x509.Certificate{sign(&x509.Certificate{ExtKeyUsage: clientAuth})}, http.StatusUnauthorized},
		"a server's": {[]*x509.Certificate{sign(&x509.Certificate{
			Subject: pkix.Name{CommonName: "x"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})}, http.StatusUnauthorized},
		"expired": {[]*x509.Certificate{sign(&x509.Certificate{
			Subject: pkix.Name{CommonName: "x"}, ExtKeyUsage: clientAuth, NotBefore: t0.Add(-time.Hour), NotAfter: t0.Add(-time.Minute),
		})}, http.StatusUnauthorized},
		"not yet valid": {[]*x509.Certificate{sign(&x509.Certificate{
			Subject: pkix.Name{CommonName: "x"}, ExtKeyUsage: clientAuth, NotBefore: t0.Add(time.Minute), NotAfter: t0.Add(time.Hour),
		})}, http.StatusUnauthorized},
		"none": {nil, http.StatusUnauthorized},
	} {
		if got := status(s.Auth, ask(http.MethodGet, "/pods", "", tc.chain...)); got != tc.want {
			t.Errorf("%s: %d; want %d", name, got, tc.want)
		}
	}
	user, refusal := s.Check(ask(http.MethodGet, "/pods", "", s.ca.client("kube-apiserver", "system:masters")))
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
	client := s.ca.client("kube-apiserver")
	if got := status(s.Auth, ask(http.MethodGet, "/pods", "", client)); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	s.clock.SetTime(client.NotAfter.Add(time.Second))
	if got := status(s.Auth, ask(http.MethodGet, "/pods", "", client)); got != http.StatusUnauthorized {
		t.Errorf("after: %d; want 401", got)
	}
}

// The file of CAs may be created late, change, and be invalid for some time.
func TestClientCAFile(t *testing.T) {
	s := newSetup(t, nil)
	second := newAuthority(t, "second")
	first := s.ca.client("first")
	want := func(when string, oldOne, newOne int) {
		t.Helper()
		s.clock.SetTime(s.clock.Now().Add(reread))
		for _, c := range []struct {
			of   *x509.Certificate
			want int
		}{{first, oldOne}, {second.client("second"), newOne}} {
			if got := status(s.Auth, ask(http.MethodGet, "/pods", "", c.of)); got != c.want {
				t.Errorf("%s: %s gets %d; want %d", when, c.of.Subject.CommonName, got, c.want)
			}
		}
	}
	want("at first", 200, 401)
	write(t, s.caFile, nil)
	want("emptied", 200, 401)
	both := append(second.pem(), s.ca.pem()...)
	write(t, s.caFile, both[:len(both)-40])
	want("half written", 200, 401)
	write(t, s.caFile, []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"))
	want("no certificate in it", 200, 401)
	write(t, s.caFile, both)
	want("both", 200, 200)
	write(t, s.caFile, second.pem())
	want("the first taken away", 401, 200)
	if err := os.Remove(s.caFile); err != nil {
		t.Fatal(err)
	}
	want("gone", 401, 200)

	late := newSetup(t, func(c *Config) { c.ClientCAFile += ".late" })
	client := late.ca.client("late")
	if got := status(late.Auth, ask(http.MethodGet, "/pods", "", client)); got != http.StatusUnauthorized {
		t.Errorf("before the file exists: %d; want 401", got)
	}
	write(t, late.caFile+".late", late.ca.pem())
	late.clock.SetTime(late.clock.Now().Add(reread))
	if got := status(late.Auth, ask(http.MethodGet, "/pods", "", client)); got != http.StatusOK {
		t.Errorf("once the file exists: %d; want 200", got)
	}
}
