package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// The API server's names for authenticated and unauthenticated users.
const (
	anonymous       = "system:anonymous"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
)

// TokenReviews is the used part of authenticationv1client.TokenReviewInterface.
type TokenReviews interface {
	Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// AccessReviews is the used part of authorizationv1client.SubjectAccessReviewInterface.
type AccessReviews interface {
	Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Config configures an Auth.
type Config struct {
	// NodeName is the name of the node in reviews.
	NodeName string
	// ClientCAFile has the CAs of client certificates, in PEM. It may be created later, and change. Empty: client
	// certificates are ignored.
	ClientCAFile string
	// TokenReviews authenticate bearer tokens. Nil: tokens are ignored. The client must not share its rate limit
	// with AccessReviews, because unauthenticated tokens could use it up, nor with the node's own requests.
	TokenReviews TokenReviews
	// TokenTTL is how long a valid token is cached. 0: 2 minutes.
	TokenTTL time.Duration
	// Anonymous authorizes requests without credentials as system:anonymous.
	Anonymous bool
	// AlwaysAllow allows every request of an authenticated user. Otherwise AccessReviews must be set.
	AlwaysAllow   bool
	AccessReviews AccessReviews
	// AuthorizedTTL and UnauthorizedTTL are how long positive and negative decisions are cached. 0: 5 minutes and 30
	// s.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// Logger receives failures of the files and of the API server. Nil discards.
	Logger *slog.Logger
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// User is the authenticated user of a request.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
	// Certificate is set if a client certificate authenticated the user, and not a token or nothing.
	Certificate bool
}

// Anonymous reports whether the user has neither a certificate nor a token.
func (u *User) Anonymous() bool { return u.Name == anonymous }

type userKey struct{}

// WithUser returns the context of a request with its user.
func WithUser(ctx context.Context, u *User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserOf returns the user of WithUser, or nil.
func UserOf(ctx context.Context) *User {
	u, _ := ctx.Value(userKey{}).(*User)
	return u
}

// Auth authenticates and authorizes requests. It is safe for concurrent use.
type Auth struct {
	anonymous bool
	// trust is nil without a CA file, tokens without token reviews, and access with AlwaysAllow.
	trust  *trust
	tokens *tokens
	access *access
}

// New returns an Auth. Missing files and an unreachable API server are no errors.
func New(cfg Config) (*Auth, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	a := &Auth{anonymous: cfg.Anonymous}
	turns := newTurns()
	if cfg.ClientCAFile != "" {
		a.trust = newTrust(cfg.ClientCAFile, cfg.Clock, cfg.Logger)
	}
	if cfg.TokenReviews != nil {
		a.tokens = newTokens(cfg, turns)
	}
	switch {
	case cfg.AlwaysAllow:
	case cfg.AccessReviews == nil:
		return nil, errors.New("authorization: there is no client for access reviews")
	case cfg.NodeName == "":
		return nil, errors.New("authorization: the node has no name")
	default:
		a.access = newAccess(cfg, turns)
	}
	return a, nil
}

// ClientCAs returns the current CAs, for the handshake. Nil: there are none.
func (a *Auth) ClientCAs() *x509.CertPool {
	if a.trust == nil {
		return nil
	}
	return a.trust.pool()
}

// Check returns the user of a request, or the reason for its refusal. It removes the bearer token from an allowed
// request: no handler needs it.
func (a *Auth) Check(r *http.Request) (*User, *Refusal) {
	user, err := a.authenticate(r)
	if err != nil {
		return nil, unauthorized(err)
	}
	verb, anyOf := Attributes(r.Method, r.URL.Path)
	if len(anyOf) == 0 {
		return nil, unknownMethod(user, r.Method)
	}
	if refusal := a.authorize(r.Context(), r.RemoteAddr, user, verb, anyOf); refusal != nil {
		return nil, refusal
	}
	hideToken(r)
	return user, nil
}

// authenticate uses the caller's first valid credentials. A caller with only invalid ones isn't anonymous.
func (a *Auth) authenticate(r *http.Request) (*User, error) {
	var failed []error
	if a.trust != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		user, err := a.trust.user(r.TLS.PeerCertificates)
		if err == nil {
			return known(user), nil
		}
		failed = append(failed, fmt.Errorf("client certificate: %w", err))
	}
	if token := bearer(r); token != "" && a.tokens != nil {
		user, err := a.tokens.user(r.Context(), r.RemoteAddr, token)
		if err == nil {
			return known(user), nil
		}
		failed = append(failed, fmt.Errorf("bearer token: %w", err))
	}
	switch {
	case len(failed) > 0:
		return nil, errors.Join(failed...)
	case a.anonymous:
		return &User{Name: anonymous, Groups: []string{unauthenticated}}, nil
	default:
		return nil, errNoCredentials
	}
}

// known adds the group of all authenticated users.
func known(u *User) *User {
	if u.Name == anonymous || slices.Contains(u.Groups, authenticated) || slices.Contains(u.Groups, unauthenticated) {
		return u
	}
	with := *u
	with.Groups = append(slices.Clone(u.Groups), authenticated)
	return &with
}

// authorize reviews one subresource after another until one is allowed.
func (a *Auth) authorize(ctx context.Context, remote string, user *User, verb string, anyOf []string) *Refusal {
	if a.access == nil {
		return nil
	}
	var why string
	for _, subresource := range anyOf {
		decision, err := a.access.decide(ctx, remote, user, verb, subresource)
		switch {
		case err != nil:
			return undecided(err, user, verb, subresource)
		case decision.allowed:
			return nil
		}
		why = decision.reason
	}
	return forbidden(user, verb, anyOf, why)
}
