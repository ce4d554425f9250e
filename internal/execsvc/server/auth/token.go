package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	tokenTTL = 2 * time.Minute
	// badTokenTTL is shorter: a token that isn't good may become so, as where its service account comes a moment later.
	badTokenTTL = 10 * time.Second
)

// tokens finds whose a bearer token is.
type tokens struct {
	reviews TokenReviews
	answers *answers[tokenAnswer]
}

// tokenAnswer has no user if the token is no good, but why.
type tokenAnswer struct {
	user *User
	why  string
}

func newTokens(cfg Config, turns *turns) *tokens {
	goodFor := cmp.Or(cfg.TokenTTL, tokenTTL)
	return &tokens{
		reviews: cfg.TokenReviews,
		answers: newAnswers[tokenAnswer]("token", goodFor, min(goodFor, badTokenTTL), turns, cfg.Clock, cfg.Logger),
	}
}

// user is whose the token is. The token is in no error.
func (t *tokens) user(ctx context.Context, peer, token string) (*User, error) {
	answer, err := t.answers.get(ctx, peer, sha256.Sum256([]byte(token)), func(ctx context.Context) (tokenAnswer, bool, error) {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		review, err := t.reviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return tokenAnswer{}, false, fmt.Errorf("ask the API server: %w", err)
		}
		if !review.Status.Authenticated || review.Status.User.Username == "" {
			return tokenAnswer{why: cmp.Or(review.Status.Error, "the API server doesn't know it")}, false, nil
		}
		u := review.Status.User
		user := &User{Name: u.Username, UID: u.UID, Groups: u.Groups}
		for key, values := range u.Extra {
			if user.Extra == nil {
				user.Extra = map[string][]string{}
			}
			user.Extra[key] = values
		}
		return tokenAnswer{user: user}, true, nil
	})
	switch {
	case err != nil:
		return nil, err
	case answer.user == nil:
		return nil, errors.New(answer.why)
	}
	return answer.user, nil
}

// tokenProtocol begins a WebSocket's subprotocol that is a token: who is in a browser has no other place for one.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// bearer is the request's token, or empty.
func bearer(r *http.Request) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if strings.EqualFold(scheme, "bearer") {
		token, _, _ := strings.Cut(rest, " ")
		return token
	}
	if tokens, others := protocols(r); len(tokens) == 1 && len(others) > 0 && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		if token, err := base64.RawURLEncoding.DecodeString(tokens[0]); err == nil && utf8.Valid(token) {
			return string(token)
		}
	}
	return ""
}

// hideToken takes the tokens off a request: nobody behind needs them, the container runtime least of all.
func hideToken(r *http.Request) {
	r.Header.Del("Authorization")
	if tokens, others := protocols(r); len(tokens) > 0 {
		r.Header.Set(protocolHeader, strings.Join(others, ", "))
	}
}

const protocolHeader = "Sec-Websocket-Protocol"

// protocols are the subprotocols that a WebSocket may have, and the encoded tokens among them.
func protocols(r *http.Request) (tokens, others []string) {
	for _, list := range r.Header.Values(protocolHeader) {
		for protocol := range strings.SplitSeq(list, ",") {
			protocol = strings.TrimSpace(protocol)
			if token, ok := strings.CutPrefix(protocol, tokenProtocol); ok {
				tokens = append(tokens, token)
			} else {
				others = append(others, protocol)
			}
		}
	}
	return tokens, others
}
