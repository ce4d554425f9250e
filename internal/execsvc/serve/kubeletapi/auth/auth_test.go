package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/podstream/podstream/internal/certtest"
)

// A caller with invalid credentials is rejected, not anonymous. A caller without credentials may be anonymous.
func TestAnonymous(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		s := newSetup(t, func(c *Config) { c.Anonymous = allowed })
		stranger := client(certtest.NewCA(t, "other"), "x")
		without := http.StatusUnauthorized
		if allowed {
			without = http.StatusOK
		}
		if got := status(s.Auth, ask(http.MethodGet, "/pods", "")); got != without {
			t.Errorf("anonymous %v: without credentials %d; want %d", allowed, got, without)
		}
		if got := status(s.Auth, ask(http.MethodGet, "/pods", "bad")); got != http.StatusUnauthorized {
			t.Errorf("anonymous %v: with a bad token %d; want 401", allowed, got)
		}
		if got := status(s.Auth, ask(http.MethodGet, "/pods", "", stranger)); got != http.StatusUnauthorized {
			t.Errorf("anonymous %v: with a stranger's certificate %d; want 401", allowed, got)
		}
		if got := status(s.Auth, ask(http.MethodGet, "/pods", "good", stranger)); got != http.StatusOK {
			t.Errorf("anonymous %v: with a good token beside it %d; want 200", allowed, got)
		}
	}
	s := newSetup(t, func(c *Config) { c.Anonymous = true })
	user, _ := s.Check(ask(http.MethodGet, "/pods", ""))
	if diff := cmp.Diff(&User{Name: anonymous, Groups: []string{unauthenticated}}, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
}

// A WebSocket's token may be one of its subprotocols, besides the protocol in use. Handlers see only the
// protocol.
func TestTokenOfWebSocket(t *testing.T) {
	s := newSetup(t, nil)
	const good, bad = tokenProtocol + "Z29vZA", tokenProtocol + "YmFk"
	for protocols, want := range map[string]int{
		good + ", v4.channel.k8s.io": 200, "v4.channel.k8s.io," + good: 200, bad + ", v4.channel.k8s.io": 401, good: 401,
		good + "," + bad + ",v4.channel.k8s.io": 401, tokenProtocol + "!,v4.channel.k8s.io": 401, "v4.channel.k8s.io": 401,
	} {
		for _, upgrade := range []string{"websocket", ""} {
			r := ask(http.MethodGet, "/pods", "")
			r.Header.Set("Upgrade", upgrade)
			r.Header.Set("Sec-WebSocket-Protocol", protocols)
			if upgrade == "" {
				want = http.StatusUnauthorized
			}
			if got := status(s.Auth, r); got != want {
				t.Errorf("%q, upgrade %q: %d; want %d", protocols, upgrade, got, want)
			}
			if left := r.Header.Get("Sec-WebSocket-Protocol"); want == http.StatusOK && left != "v4.channel.k8s.io" {
				t.Errorf("%q: handlers see %q", protocols, left)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	s := newSetup(t, nil)
	r := ask(http.MethodGet, "/pods", "good")
	user, refusal := s.Check(r)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if diff := cmp.Diff(&User{Name: "prometheus", UID: "1", Groups: []string{"monitoring", authenticated}}, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if r.Header.Get("Authorization") != "" {
		t.Error("handlers see the token")
	}
	_, refusal = s.Check(ask(http.MethodGet, "/pods", "secret-guess"))
	if refusal == nil || refusal.Status != http.StatusUnauthorized || refusal.Message != "Unauthorized" {
		t.Fatalf("a bad token: %+v", refusal)
	}
	if strings.Contains(fmt.Sprint(refusal.Err), "secret-guess") {
		t.Errorf("the log would have the token: %v", refusal.Err)
	}
	for _, header := range []string{"Basic good", "good", "Bearer", "Bearer  good", "Bearer " + strings.Repeat(" ", 99) + "good", "Bearergood"} {
		r := ask(http.MethodGet, "/pods", "")
		r.Header.Set("Authorization", header)
		if got := status(s.Auth, r); got != http.StatusUnauthorized {
			t.Errorf("%q: %d; want 401", header, got)
		}
	}
}

func TestAuthorization(t *testing.T) {
	s := newSetup(t, nil)
	var asked []string
	allow := map[string]bool{}
	s.api.rule = func(spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		of := spec.ResourceAttributes
		asked = append(asked, fmt.Sprintf("%s %v: %s %s/%s %s %s", spec.User, spec.Groups, of.Verb, of.Resource, of.Subresource, of.Name, of.Version))
		return authorizationv1.SubjectAccessReviewStatus{Allowed: allow[of.Verb+" "+of.Subresource], Reason: "by rule"}, nil
	}
	who := "prometheus [monitoring system:authenticated]: "
	for _, step := range []struct {
		method, path string
		grant        string
		wait         time.Duration
		want         int
		asked        []string
	}{
		{"GET", "/pods", "", 0, 403, []string{"get nodes/pods node-1 v1", "get nodes/proxy node-1 v1"}},
		{"GET", "/pods", "get proxy", 0, 403, nil},
		{"GET", "/pods", "", unauthorizedTTL + time.Second, 200, []string{"get nodes/pods node-1 v1", "get nodes/proxy node-1 v1"}},
		{"GET", "/configz", "", 0, 200, []string{"get nodes/configz node-1 v1"}},
		{"GET", "/containerLogs/ns/pod/main", "", 0, 200, nil},
		// The right to read doesn't include exec.
		{"GET", "/exec/ns/pod/main", "", 0, 403, []string{"create nodes/proxy node-1 v1"}},
		{"POST", "/exec/ns/pod/main", "", 0, 403, nil},
		{"GET", "/metrics/cadvisor", "", 0, 403, []string{"get nodes/metrics node-1 v1"}},
		{"HEAD", "/pods", "", 0, 403, nil},
	} {
		if step.grant != "" {
			allow[step.grant] = true
		}
		s.clock.SetTime(s.clock.Now().Add(step.wait))
		asked = nil
		if got := status(s.Auth, ask(step.method, step.path, "good")); got != step.want {
			t.Errorf("%s %s: %d; want %d", step.method, step.path, got, step.want)
		}
		var want []string
		for _, w := range step.asked {
			want = append(want, who+w)
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("%s %s: asked (-want +got):\n%s", step.method, step.path, diff)
		}
	}
	_, refusal := s.Check(ask(http.MethodGet, "/stats/summary", "good"))
	if want := "Forbidden (user=prometheus, verb=get, resource=nodes, subresource(s)=[stats])"; refusal == nil || refusal.Message != want {
		t.Errorf("%+v; want %q", refusal, want)
	}
	if !strings.Contains(refusal.Err.Error(), "by rule") || strings.Contains(refusal.Message, "by rule") {
		t.Errorf("the log has %q, the caller %q; want the API server's reason in the log only", refusal.Err, refusal.Message)
	}
}

// A review that is both allowed and denied is denied. A review without an answer isn't allowed either.
func TestNeverOpen(t *testing.T) {
	s := newSetup(t, nil)
	s.api.rule = func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, nil
	}
	if got := status(s.Auth, ask(http.MethodGet, "/pods", "good")); got != http.StatusForbidden {
		t.Errorf("allowed and denied: %d; want 403", got)
	}
	s.api.rule = func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, errors.New("connection refused")
	}
	if got := status(s.Auth, ask(http.MethodGet, "/stats/summary", "good")); got != http.StatusInternalServerError {
		t.Errorf("no answer: %d; want 500", got)
	}
	if got := status(s.Auth, ask(http.MethodGet, "/stats/summary", "good")); got != http.StatusInternalServerError {
		t.Errorf("no answer again: %d; want 500", got)
	}
	for name, cfg := range map[string]Config{
		"nobody to ask": {NodeName: "node-1"}, "no name": {AccessReviews: accessAPI{s.api}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
