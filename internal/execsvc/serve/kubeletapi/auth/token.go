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
	// badTokenTTL is shorter: an invalid token may become valid, if its service account is created a moment later,
	// for example.
	badTokenTTL = 10 * time.Second
)

// tokens authenticates bearer tokens.
type tokens struct {
	reviews TokenReviews
	turns   turns
	answers *answers[tokenAnswer]
}

// tokenAnswer has either a user, or the reason why the token is invalid.
type tokenAnswer struct {
	user *User
	why  string
}

func newTokens(cfg Config, turns turns) *tokens {
	goodFor := cmp.Or(cfg.TokenTTL, tokenTTL)
	return &tokens{
		reviews: cfg.TokenReviews, turns: turns,
		answers: newAnswers[tokenAnswer]("token", goodFor, min(goodFor, badTokenTTL), cfg.Clock, cfg.Logger),
	}
}

// user returns the token's user. No error contains the token.
func (t *tokens) user(ctx context.Context, remote, token string) (*User, error) {
	answer, err := t.answers.get(ctx, t.turns.ofStranger(remote), sha256.Sum256([]byte(token)), func(ctx context.Context) (tokenAnswer, bool, error) {
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

// tokenProtocol is the prefix of a WebSocket subprotocol that has a token: browsers can't set the header.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// bearer returns the request's token, or "".
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

// hideToken removes the tokens from a request: no handler needs them, nor does the container runtime.
func hideToken(r *http.Request) {
	r.Header.Del("Authorization")
	if tokens, others := protocols(r); len(tokens) > 0 {
		r.Header.Set(protocolHeader, strings.Join(others, ", "))
	}
}

const protocolHeader = "Sec-Websocket-Protocol"

// protocols returns the encoded tokens among the subprotocols of a WebSocket, and the other subprotocols.
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
