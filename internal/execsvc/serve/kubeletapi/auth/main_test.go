package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// client returns a client's certificate.
func client(ca *certtest.CA, name string, groups ...string) *x509.Certificate {
	return ca.Pair(x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}).Leaf
}

// api answers reviews with its functions, and counts them.
type api struct {
	mu            sync.Mutex
	tokens, rules int
	token         func(token string) (authenticationv1.TokenReviewStatus, error)
	rule          func(spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

func (a *api) counts() (tokens, rules int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens, a.rules
}

type tokenAPI struct{ *api }

func (a tokenAPI) Create(_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	a.mu.Lock()
	a.tokens++
	a.mu.Unlock()
	status, err := a.token(r.Spec.Token)
	return &authenticationv1.TokenReview{Status: status}, err
}

type accessAPI struct{ *api }

func (a accessAPI) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	a.mu.Lock()
	a.rules++
	a.mu.Unlock()
	status, err := a.rule(r.Spec)
	return &authorizationv1.SubjectAccessReview{Status: status}, err
}

// setup is an Auth with an api that maps the token "good" to the user prometheus and allows everything.
type setup struct {
	*Auth
	api    *api
	clock  *testclock.FakePassiveClock
	ca     *certtest.CA
	caFile string
}

func newSetup(t *testing.T, change func(*Config)) *setup {
	t.Helper()
	s := &setup{clock: testclock.NewFakePassiveClock(t0), ca: certtest.NewCA(t, "ca"), caFile: filepath.Join(t.TempDir(), "ca.crt")}
	write(t, s.caFile, s.ca.PEM)
	s.api = &api{
		token: func(token string) (authenticationv1.TokenReviewStatus, error) {
			user := authenticationv1.UserInfo{Username: "prometheus", UID: "1", Groups: []string{"monitoring"}}
			return authenticationv1.TokenReviewStatus{Authenticated: token == "good", User: user}, nil
		},
		rule: func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
		},
	}
	cfg := Config{
		NodeName: "node-1", ClientCAFile: s.caFile, TokenReviews: tokenAPI{s.api}, AccessReviews: accessAPI{s.api}, Clock: s.clock,
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.Auth, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask returns a request with a token, unless it is empty, and with certificates.
func ask(method, path, token string, chain ...*x509.Certificate) *http.Request {
	r := httptest.NewRequest(method, "https://node-1:10250"+path, http.NoBody)
	r.TLS = &tls.ConnectionState{PeerCertificates: chain}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// status returns the status code of a request's answer: 200 if it is admitted.
func status(a *Auth, r *http.Request) int {
	if _, refusal := a.Check(r); refusal != nil {
		return refusal.Status
	}
	return http.StatusOK
}
