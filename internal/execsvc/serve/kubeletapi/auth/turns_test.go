package auth

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/podstream/podstream/internal/certtest"
)

// crowd sends requests with unknown tokens from each of the addresses, and returns once no more are accepted.
// The reviews wait until release is called.
func crowd(t *testing.T, s *setup, addresses ...string) (release func()) {
	t.Helper()
	let := make(chan struct{})
	known := s.api.token
	s.api.token = func(token string) (authenticationv1.TokenReviewStatus, error) {
		if len(token) > 6 && token[:6] == "guess-" {
			<-let
		}
		return known(token)
	}
	var wg sync.WaitGroup
	for i, address := range addresses {
		for j := range maxReviews {
			r := ask(http.MethodGet, "/pods", fmt.Sprintf("guess-%d-%d", i, j))
			r.RemoteAddr = address
			before, _ := s.tokens.turns.tokens.Taken()
			done := make(chan struct{})
			wg.Go(func() {
				defer close(done)
				s.Check(r)
			})
			// The request is refused or admitted.
			for over := false; !over; {
				select {
				case <-done:
					over = true
				default:
					runtime.Gosched()
					now, _ := s.tokens.turns.tokens.Taken()
					over = now > before
				}
			}
		}
	}
	return func() {
		close(let)
		wg.Wait()
	}
}

// TestUnknownTokensBlockNoOtherCaller: with any number of unknown tokens, from any number of addresses of any network,
// the API server with its certificate is admitted, and another caller's token is reviewed.
func TestUnknownTokensBlockNoOtherCaller(t *testing.T) {
	var v4, v6 []string
	for i := range 10 {
		v4 = append(v4, fmt.Sprintf("10.244.0.%d:4000", i+2))
		v6 = append(v6, fmt.Sprintf("[2001:db8:0:1::%x]:4000", i+2))
	}
	for what, tc := range map[string]struct {
		crowd []string
		// apiServer and prometheus are their source addresses.
		apiServer, prometheus string
	}{
		"one address":                {v4[:1], "192.168.0.1:5000", "192.168.0.2:5000"},
		"the API server's own":       {v4[:1], v4[0], "192.168.0.2:5000"},
		"many addresses":             {v4, "192.168.0.1:5000", "192.168.0.2:5000"},
		"one address of the network": {v6[:1], "[2001:db8:0:1::1]:5000", "[2001:db8:0:1::ffff]:5000"},
		"many of the network":        {v6, "[2001:db8:0:1::1]:5000", "[2001:db8:0:2::1]:5000"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSetup(t, nil)
			release := crowd(t, s, tc.crowd...)
			defer release()
			r := ask(http.MethodGet, "/containerLogs/ns/pod/c", "", client(s.ca, "kube-apiserver-kubelet-client"))
			r.RemoteAddr = tc.apiServer
			if got := status(s.Auth, r); got != http.StatusOK {
				t.Errorf("the API server: %d; want 200", got)
			}
			r = ask(http.MethodGet, "/metrics", "good")
			r.RemoteAddr = tc.prometheus
			if got := status(s.Auth, r); got != http.StatusOK {
				t.Errorf("a caller with a good token: %d; want 200", got)
			}
		})
	}
}

// TestUsersBlockNoOtherCaller: access reviews of users with tokens, and of users with another certificate, don't
// block the API server's reviews.
func TestUsersBlockNoOtherCaller(t *testing.T) {
	s := newSetup(t, nil)
	began, let := make(chan struct{}), make(chan struct{})
	s.api.rule = func(spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		if spec.User != "kube-apiserver-kubelet-client" {
			began <- struct{}{}
			<-let
		}
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	}
	user := func(name string, certificate bool) *User { return &User{Name: name, Certificate: certificate} }
	var wg sync.WaitGroup
	busy := 0
	for _, certificate := range []bool{true, false} {
		for i := range maxReviews {
			done := make(chan error, 1)
			wg.Go(func() {
				_, err := s.access.decide(t.Context(), "10.0.0.1:1", user("mallory", certificate), "get", fmt.Sprint(certificate, i))
				done <- err
			})
			select {
			case <-began:
			case <-done:
				busy++
			}
		}
	}
	if begun := 2*maxReviews - busy; begun == 0 || begun > maxReviews {
		t.Errorf("%d of mallory's %d questions are asked at once; want some, and half of them at most", begun, 2*maxReviews)
	}
	r := ask(http.MethodGet, "/containerLogs/ns/pod/c", "", client(s.ca, "kube-apiserver-kubelet-client"))
	if got := status(s.Auth, r); got != http.StatusOK {
		t.Errorf("the API server: %d; want 200", got)
	}
	close(let)
	wg.Wait()
}

// TestUserByCertificate: only a verified certificate makes a user one by certificate.
func TestUserByCertificate(t *testing.T) {
	s := newSetup(t, func(c *Config) { c.Anonymous = true })
	for what, tc := range map[string]struct {
		request                *http.Request
		certificate, anonymous bool
	}{
		"a certificate":              {ask(http.MethodGet, "/pods", "", client(s.ca, "admin")), true, false},
		"a token":                    {ask(http.MethodGet, "/pods", "good"), false, false},
		"nothing":                    {ask(http.MethodGet, "/pods", ""), false, true},
		"another CA's, and a token":  {ask(http.MethodGet, "/pods", "good", client(certtest.NewCA(t, "other"), "admin")), false, false},
		"a certificate, and a token": {ask(http.MethodGet, "/pods", "good", client(s.ca, "admin")), true, false},
	} {
		user, refusal := s.Check(tc.request)
		if refusal != nil || user.Certificate != tc.certificate || user.Anonymous() != tc.anonymous {
			t.Errorf("%s: %+v, %v; want by certificate: %v, anonymous: %v", what, user, refusal, tc.certificate, tc.anonymous)
		}
	}
	if u := UserOf(t.Context()); u != nil {
		t.Errorf("the user of a rejected request is %v; want nil", u)
	}
	if u := (&User{Name: "x"}); UserOf(WithUser(t.Context(), u)) != u {
		t.Error("the user of a request isn't found in its context")
	}
}
