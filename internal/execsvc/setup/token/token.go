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
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

const (
	// longest is how long a token is used at most, whatever its expiration.
	longest = 24 * time.Hour
	// spread is the random part of the replacement time, so that tokens aren't replaced all at once.
	spread = 10 * time.Second
	// defaultAccount is the account of a pod without serviceAccountName.
	defaultAccount = "default"
)

// Requests requests a token of an account from an API server.
type Requests func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

// Config configures Tokens.
type Config struct {
	Requests Requests
	// Clock is the clock of tokens' ages. Nil means the real one.
	Clock clock.PassiveClock
	// Logger receives a line for each failed replacement of a token that is still valid. Nil discards them.
	Logger *slog.Logger
}

// Tokens caches the tokens of the node's pods. It is safe for concurrent use.
type Tokens struct {
	cfg Config

	mu sync.Mutex
	// held are the tokens of each pod, by request.
	held map[types.UID]map[string]held
}

// held is a token with the times of its replacement and its expiration.
type held struct {
	token            []byte
	replace, expires time.Time
}

// New returns empty Tokens.
func New(cfg Config) *Tokens {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Tokens{cfg: cfg, held: map[types.UID]map[string]held{}}
}

// Token is part of payload.Tokens. It returns the same token for four fifths of its lifetime, or a day. A token that
// can't be replaced then is returned until it expires.
func (t *Tokens) Token(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) ([]byte, error) {
	return t.forAccount(ctx, pod, p, cmp.Or(pod.Spec.ServiceAccountName, defaultAccount), "")
}

// ForAccount returns a token of exactly this service account for an audience, bound to the pod, as credential providers
// receive it. An account of the same name that was created later doesn't get one.
func (t *Tokens) ForAccount(ctx context.Context, pod *v1.Pod, account *v1.ServiceAccount, audience string) (string, error) {
	token, err := t.forAccount(ctx, pod, &v1.ServiceAccountTokenProjection{Audience: audience}, account.Name, account.UID)
	return string(token), err
}

// ForVolume returns a token of the pod's service account for an audience, as the driver of a CSI volume receives it, with
// the time at which it expires. Empty audience: the API server's. Nil expirationSeconds: the API server's default.
func (t *Tokens) ForVolume(
	ctx context.Context, pod *v1.Pod, audience string, expirationSeconds *int64,
) (authenticationv1.TokenRequestStatus, error) {
	p := &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: expirationSeconds}
	h, err := t.heldFor(ctx, pod, p, cmp.Or(pod.Spec.ServiceAccountName, defaultAccount), "")
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	return authenticationv1.TokenRequestStatus{Token: string(h.token), ExpirationTimestamp: metav1.NewTime(h.expires)}, nil
}

// forAccount is Token for an account with this UID; empty: any.
func (t *Tokens) forAccount(
	ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection, account string, accountUID types.UID,
) ([]byte, error) {
	h, err := t.heldFor(ctx, pod, p, account, accountUID)
	return h.token, err
}

// heldFor returns the token that is held, or a new one.
func (t *Tokens) heldFor(
	ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection, account string, accountUID types.UID,
) (held, error) {
	request := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: accountUID}, Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: p.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	key := strings.Join([]string{account, string(accountUID), p.Audience, fmt.Sprint(p.ExpirationSeconds != nil, lifetime(p))}, "\x00")
	now := t.cfg.Clock.Now()
	have, ok := t.get(pod.UID, key)
	if ok && now.Before(have.replace) {
		return have, nil
	}
	got, err := t.cfg.Requests(ctx, pod.Namespace, account, request)
	if err == nil && got.Status.Token == "" {
		err = errors.New("the API server's response has no token")
	}
	switch {
	case err == nil:
	case ok && now.Before(have.expires):
		t.cfg.Logger.Warn("can't replace a service account token; the pod keeps the current one", "pod", podmeta.LogName(pod),
			"uid", pod.UID, "account", account, "error", err, "expires", have.expires)
		return have, nil
	default:
		return held{}, fmt.Errorf("get a token of the service account %s/%s: %w", pod.Namespace, account, err)
	}
	have = heldOf(now, got)
	t.put(pod.UID, key, have)
	return have, nil
}

func lifetime(p *v1.ServiceAccountTokenProjection) int64 {
	if p.ExpirationSeconds == nil {
		return 0
	}
	return *p.ExpirationSeconds
}

// heldOf returns a token requested at that time. The response has its lifetime, which may differ from the requested
// one.
func heldOf(asked time.Time, got *authenticationv1.TokenRequest) held {
	expires := got.Status.ExpirationTimestamp.Time
	life := expires.Sub(asked)
	return held{
		token: []byte(got.Status.Token), expires: expires,
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

// Drop removes the pod's tokens.
func (t *Tokens) Drop(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, uid)
}
