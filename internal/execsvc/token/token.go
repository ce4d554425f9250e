package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

const (
	// longest is how long a token is used at most, however long it is good for.
	longest = 24 * time.Hour
	// spread is how much earlier than it must be a token is replaced, at random, so that not all are at once.
	spread = 10 * time.Second
	// defaultAccount is that of a pod that names none.
	defaultAccount = "default"
)

// Requests asks an API server for a token of an account.
type Requests func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

// From are the Requests of a client.
func From(client corev1.ServiceAccountsGetter) Requests {
	return func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		return client.ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	}
}

// Config says where tokens come from.
type Config struct {
	Requests Requests
	// Clock is for the tokens' ages. Nil means the real one.
	Clock clock.PassiveClock
	// Logger is told when a token can't be replaced in time. Nil discards.
	Logger *slog.Logger
}

// Tokens are the tokens of the pods here. It is safe for concurrent use.
type Tokens struct {
	cfg Config

	mu sync.Mutex
	// held are the tokens of each pod, by what was asked for.
	held map[types.UID]map[string]held
}

// held is a token, with the times from which it is to be replaced, and at which it is no good any more.
type held struct {
	token            []byte
	replace, runsOut time.Time
}

// New returns Tokens without any.
func New(cfg Config) *Tokens {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Tokens{cfg: cfg, held: map[types.UID]map[string]held{}}
}

// Token is part of payload.Tokens. It returns the same token until four fifths of its life are over, or a day. One that can't be replaced then
// is returned as long as it is good.
func (t *Tokens) Token(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) ([]byte, error) {
	account := cmp.Or(pod.Spec.ServiceAccountName, defaultAccount)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: p.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	key := strings.Join([]string{account, p.Audience, fmt.Sprint(p.ExpirationSeconds != nil, lifetime(p))}, "\x00")
	now := t.cfg.Clock.Now()
	have, ok := t.get(pod.UID, key)
	if ok && now.Before(have.replace) {
		return have.token, nil
	}
	got, err := t.cfg.Requests(ctx, pod.Namespace, account, request)
	if err == nil && got.Status.Token == "" {
		err = errors.New("the API server's answer has no token")
	}
	switch {
	case err == nil:
	case ok && now.Before(have.runsOut):
		t.cfg.Logger.Warn("a service account's token can't be replaced; the pod goes on with the one that it has", "pod", pod.Namespace+"/"+pod.Name,
			"uid", pod.UID, "account", account, "error", err, "runs_out", have.runsOut)
		return have.token, nil
	default:
		return nil, fmt.Errorf("get a token of the service account %s/%s: %w", pod.Namespace, account, err)
	}
	have = heldOf(now, got)
	t.put(pod.UID, key, have)
	return have.token, nil
}

func lifetime(p *v1.ServiceAccountTokenProjection) int64 {
	if p.ExpirationSeconds == nil {
		return 0
	}
	return *p.ExpirationSeconds
}

// heldOf is a token that was asked for at that time. Its life is told by the answer, which may give less or more than was asked for.
func heldOf(asked time.Time, got *authenticationv1.TokenRequest) held {
	runsOut := got.Status.ExpirationTimestamp.Time
	life := runsOut.Sub(asked)
	return held{
		token: []byte(got.Status.Token), runsOut: runsOut,
		replace: asked.Add(min(life*4/5, longest) - rand.N(spread)), //nolint:gosec // It keeps no secret.
	}
}

func (t *Tokens) get(uid types.UID, key string) (held, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.held[uid][key]
	return h, ok
}

func (t *Tokens) put(uid types.UID, key string, h held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[uid] == nil {
		t.held[uid] = map[string]held{}
	}
	t.held[uid][key] = h
}

// Forget drops the pod's tokens.
func (t *Tokens) Forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, uid)
}
