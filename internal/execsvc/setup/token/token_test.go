package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// authority issues numbered tokens, for an hour or for the requested time.
type authority struct {
	clock *testingclock.FakePassiveClock
	asked []string
	err   error
}

func (a *authority) request(_ context.Context, ns, account string, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	life := ptr.Deref(r.Spec.ExpirationSeconds, 3600)
	bound := r.Spec.BoundObjectRef
	asked := fmt.Sprint(ns, "/", account, " ", r.Spec.Audiences, " ", life, " ", bound.Kind, "/", bound.Name, " ", bound.UID)
	if r.UID != "" {
		asked += " of " + string(r.UID)
	}
	a.asked = append(a.asked, asked)
	if a.err != nil {
		return nil, a.err
	}
	return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
		Token: fmt.Sprint("t", len(a.asked)), ExpirationTimestamp: metav1.NewTime(a.clock.Now().Add(time.Duration(life) * time.Second)),
	}}, nil
}

func newTokens(t *testing.T) (*Tokens, *authority, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	a := &authority{clock: testingclock.NewFakePassiveClock(time.Unix(1_000_000, 0))}
	return New(Config{Requests: a.request, Clock: a.clock, Logger: slog.New(slog.NewTextHandler(log, nil))}), a, log
}

func newPod(uid types.UID, account string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: "web"}, Spec: v1.PodSpec{ServiceAccountName: account}}
}

func projection(audience string, seconds *int64) *v1.ServiceAccountTokenProjection {
	return &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: seconds}
}

// want requests a token and checks it.
func want(t *testing.T, tokens *Tokens, pod *v1.Pod, p *v1.ServiceAccountTokenProjection, want string) {
	t.Helper()
	if got, err := tokens.Token(t.Context(), pod, p); err != nil || string(got) != want {
		t.Errorf("the token is %q, %v; want %q", got, err, want)
	}
}

// TestTokens: each account, audience and lifetime of each pod has its own token, bound to the pod, and requested
// once.
func TestTokens(t *testing.T) {
	tokens, a, _ := newTokens(t)
	a1, a2 := newPod("u1", "a"), newPod("u2", "")
	for range 2 {
		want(t, tokens, a1, projection("", nil), "t1")
		want(t, tokens, a1, projection("vault", nil), "t2")
		want(t, tokens, a1, projection("vault", ptr.To[int64](600)), "t3")
		want(t, tokens, a2, projection("", nil), "t4")
	}
	wantAsked := "ns/a [] 3600 Pod/web u1|ns/a [vault] 3600 Pod/web u1|ns/a [vault] 600 Pod/web u1|ns/default [] 3600 Pod/web u2"
	if got := strings.Join(a.asked, "|"); got != wantAsked {
		t.Errorf("requests %q; want %q", got, wantAsked)
	}
	tokens.Drop("u1")
	want(t, tokens, a1, projection("", nil), "t5")
	want(t, tokens, a2, projection("", nil), "t4")
}

// TestForAccount: a credential provider's token is requested for the account with that UID, and is neither a volume's nor
// one of an account of the same name.
func TestForAccount(t *testing.T) {
	tokens, a, _ := newTokens(t)
	pod := newPod("u1", "a")
	want(t, tokens, pod, projection("vault", nil), "t1")
	for range 2 {
		for i, uid := range []types.UID{"s1", "s2"} {
			account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: uid}}
			if got, err := tokens.ForAccount(t.Context(), pod, account, "vault"); err != nil || got != fmt.Sprint("t", i+2) {
				t.Errorf("the token for %s is %q, %v", uid, got, err)
			}
		}
	}
	wantAsked := "ns/a [vault] 3600 Pod/web u1|ns/a [vault] 3600 Pod/web u1 of s1|ns/a [vault] 3600 Pod/web u1 of s2"
	if got := strings.Join(a.asked, "|"); got != wantAsked {
		t.Errorf("requests %q; want %q", got, wantAsked)
	}
}

// TestReplaced: a token is replaced after four fifths of its lifetime, and after a day at the latest.
func TestReplaced(t *testing.T) {
	for _, tc := range []struct{ life, after time.Duration }{{10 * time.Minute, 8 * time.Minute}, {time.Hour, 48 * time.Minute}, {30 * 24 * time.Hour, 24 * time.Hour}} {
		t.Run(tc.life.String(), func(t *testing.T) {
			tokens, a, _ := newTokens(t)
			p := projection("", ptr.To(int64(tc.life/time.Second)))
			begun := a.clock.Now()
			want(t, tokens, newPod("u", ""), p, "t1")
			a.clock.SetTime(begun.Add(tc.after - spread))
			want(t, tokens, newPod("u", ""), p, "t1")
			a.clock.SetTime(begun.Add(tc.after))
			want(t, tokens, newPod("u", ""), p, "t2")
		})
	}
}

// TestCantBeReplaced: the pod keeps its token until it expires, and no longer.
func TestCantBeReplaced(t *testing.T) {
	tokens, a, log := newTokens(t)
	pod, p, begun := newPod("u", "a"), projection("", nil), a.clock.Now()
	want(t, tokens, pod, p, "t1")
	a.err = errors.New("no such account")
	a.clock.SetTime(begun.Add(50 * time.Minute))
	want(t, tokens, pod, p, "t1")
	if text := log.String(); !strings.Contains(text, "ns/web") || !strings.Contains(text, "no such account") || strings.Contains(text, "t1") {
		t.Errorf("the log has %q; want the pod and why, and no token", text)
	}
	a.clock.SetTime(begun.Add(time.Hour))
	if got, err := tokens.Token(t.Context(), pod, p); !errors.Is(err, a.err) || !strings.Contains(err.Error(), "ns/a") {
		t.Errorf("after its expiration: %q, %v; want an error that names the account", got, err)
	}
	a.err = nil
	want(t, tokens, pod, p, "t4")
}

// TestNoToken: a response without a token is an error.
func TestNoToken(t *testing.T) {
	tokens := New(Config{Requests: func(context.Context, string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		return &authenticationv1.TokenRequest{}, nil
	}})
	if _, err := tokens.Token(t.Context(), newPod("u", "a"), projection("", nil)); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("without a token in the response: %v", err)
	}
}

// TestForVolume: a driver's token has the time at which it expires, and is requested once for all volumes of the pod.
func TestForVolume(t *testing.T) {
	tokens, a, _ := newTokens(t)
	pod := newPod("u1", "")
	for range 2 {
		got, err := tokens.ForVolume(t.Context(), pod, "vault", ptr.To(int64(600)))
		if err != nil || got.Token != "t1" || !got.ExpirationTimestamp.Time.Equal(a.clock.Now().Add(10*time.Minute)) {
			t.Errorf("the token is %v, %v", got, err)
		}
	}
	if len(a.asked) != 1 || a.asked[0] != "ns/default [vault] 600 Pod/web u1" {
		t.Errorf("requests %q", a.asked)
	}
	a.clock.SetTime(a.clock.Now().Add(9 * time.Minute))
	if got, err := tokens.ForVolume(t.Context(), pod, "vault", ptr.To(int64(600))); err != nil || got.Token != "t2" {
		t.Errorf("the token is %v, %v; want a new one", got, err)
	}
}
