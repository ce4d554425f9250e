package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	authorizedTTL   = 5 * time.Minute
	unauthorizedTTL = 30 * time.Second
)

// access finds out what a user may do with the node.
type access struct {
	node    string
	reviews AccessReviews
	turns   turns
	answers *answers[decision]
}

type decision struct {
	allowed bool
	// reason is the API server's reason, for the log.
	reason string
}

func newAccess(cfg Config, turns turns) *access {
	allowed, denied := cmp.Or(cfg.AuthorizedTTL, authorizedTTL), cmp.Or(cfg.UnauthorizedTTL, unauthorizedTTL)
	return &access{
		node: cfg.NodeName, reviews: cfg.AccessReviews, turns: turns,
		answers: newAnswers[decision]("access", allowed, denied, cfg.Clock, cfg.Logger),
	}
}

func (a *access) decide(ctx context.Context, remote string, user *User, verb, subresource string) (decision, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: a.node,
		},
	}
	for key, values := range user.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	asked, err := json.Marshal(spec)
	if err != nil {
		return decision{}, fmt.Errorf("encode the access review: %w", err)
	}
	return a.answers.get(ctx, a.turns.ofUser(user, remote), sha256.Sum256(asked), func(ctx context.Context) (decision, bool, error) {
		review, err := a.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return decision{}, false, fmt.Errorf("ask the API server: %w", err)
		}
		status := review.Status
		d := decision{allowed: status.Allowed && !status.Denied, reason: cmp.Or(status.Reason, status.EvaluationError)}
		return d, d.allowed, nil
	})
}
