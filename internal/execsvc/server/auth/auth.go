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

// The names that the API server has for those it knows and those it doesn't.
const (
	anonymous       = "system:anonymous"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
)

// TokenReviews is authenticationv1client.TokenReviewInterface as far as it is used.
type TokenReviews interface {
	Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// AccessReviews is authorizationv1client.SubjectAccessReviewInterface as far as it is used.
type AccessReviews interface {
	Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Config is what an Auth is made of.
type Config struct {
	// NodeName is the node that rights are asked for.
	NodeName string
	// ClientCAFile has the certificates, in PEM, of those whose word on clients counts. It may come later, and change. Empty: client
	// certificates mean nothing.
	ClientCAFile string
	// TokenReviews tell whose a bearer token is. Nil: tokens mean nothing. The client shouldn't share its rate limit with what the node
	// itself asks of the API server.
	TokenReviews TokenReviews
	// TokenTTL is how long a good token is remembered. 0: 2 minutes.
	TokenTTL time.Duration
	// Anonymous lets requests without credentials go on to authorization, as system:anonymous.
	Anonymous bool
	// AlwaysAllow lets everybody do everything who is authenticated. Otherwise AccessReviews must be given.
	AlwaysAllow   bool
	AccessReviews AccessReviews
	// AuthorizedTTL and UnauthorizedTTL are how long it is remembered what was allowed and what wasn't. 0: 5 minutes and 30 s.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// Logger gets what is wrong with the files and the API server. Nil discards.
	Logger *slog.Logger
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// User is who asks.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Auth decides about requests. It is safe for concurrent use.
type Auth struct {
	anonymous bool
	// trust is nil without a CA file, tokens without token reviews, and access if everything is allowed.
	trust  *trust
	tokens *tokens
	access *access
}

// New returns an Auth. That the files and the API server aren't there yet is no error.
func New(cfg Config) (*Auth, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	a := &Auth{anonymous: cfg.Anonymous}
	turns := newTurns(maxReviews, maxReviewsOfPeer)
	if cfg.ClientCAFile != "" {
		a.trust = newTrust(cfg.ClientCAFile, cfg.Clock, cfg.Logger)
	}
	if cfg.TokenReviews != nil {
		a.tokens = newTokens(cfg, turns)
	}
	switch {
	case cfg.AlwaysAllow:
	case cfg.AccessReviews == nil:
		return nil, errors.New("authorization: there is nobody to ask for access reviews")
	case cfg.NodeName == "":
		return nil, errors.New("authorization: the node has no name")
	default:
		a.access = newAccess(cfg, turns)
	}
	return a, nil
}

// ClientCAs are those whose word on clients counts now, for the handshake to name them. Nil: there are none.
func (a *Auth) ClientCAs() *x509.CertPool {
	if a.trust == nil {
		return nil
	}
	return a.trust.pool()
}

// Check tells who asks, or why he is refused. It takes the bearer token off a request that is let in: nobody behind needs it.
func (a *Auth) Check(r *http.Request) (*User, *Refusal) {
	user, err := a.authenticate(r)
	if err != nil {
		return nil, unauthorized(err)
	}
	verb, anyOf := Attributes(r.Method, r.URL.Path)
	if len(anyOf) == 0 {
		return nil, &Refusal{
			Status: http.StatusForbidden, Reason: "method", User: user.Name, Verb: r.Method,
			Message: "Authorization error: could not determine attributes for request", Err: errors.New("the method is unknown"),
		}
	}
	if refusal := a.authorize(r.Context(), Peer(r.RemoteAddr), user, verb, anyOf); refusal != nil {
		return nil, refusal
	}
	hideToken(r)
	return user, nil
}

// authenticate takes the first of the caller's credentials that is good. Bad ones don't make him anonymous.
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
		user, err := a.tokens.user(r.Context(), Peer(r.RemoteAddr), token)
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

// known is the user as one of the group of all who are authenticated.
func known(u *User) *User {
	if u.Name == anonymous || slices.Contains(u.Groups, authenticated) || slices.Contains(u.Groups, unauthenticated) {
		return u
	}
	with := *u
	with.Groups = append(slices.Clone(u.Groups), authenticated)
	return &with
}

// authorize asks for one subresource after another until one is allowed.
func (a *Auth) authorize(ctx context.Context, peer string, user *User, verb string, anyOf []string) *Refusal {
	if a.access == nil {
		return nil
	}
	var why string
	for _, subresource := range anyOf {
		decision, err := a.access.decide(ctx, peer, user, verb, subresource)
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
