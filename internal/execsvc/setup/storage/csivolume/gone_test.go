package csivolume

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// noSecrets are Secrets of which each read fails.
type noSecrets struct{ err error }

func (n noSecrets) Secret(context.Context, string, string) (map[string]string, error) {
	return nil, n.err
}

// TestSecretIsGone: a call whose secret or token is gone, or refused, can't be repeated. If the API server doesn't answer, it can.
func TestSecretIsGone(t *testing.T) {
	what := schema.GroupResource{Resource: "things"}
	for name, tc := range map[string]struct {
		err  error
		want storage.Outcome
	}{
		"deleted":       {apierrors.NewNotFound(what, "x"), storage.Unrepeatable},
		"not for you":   {apierrors.NewForbidden(what, "x", errors.New("no relation to the node")), storage.Unrepeatable},
		"another UID":   {apierrors.NewConflict(what, "x", errors.New("the UID differs")), storage.Unrepeatable},
		"no answer":     {context.DeadlineExceeded, storage.NotSent},
		"not logged in": {apierrors.NewUnauthorized("expired"), storage.NotSent},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t, canStage)
			ref := &v1.SecretReference{Namespace: "vault", Name: "a"}
			n.pv.Spec.CSI.NodeStageSecretRef, n.pv.Spec.CSI.NodePublishSecretRef = ref, ref
			n.cfg.Secrets = noSecrets{tc.err}
			n.restart()
			_, s, p := n.resolved(pod())
			n.pv.Spec.CSI.NodePublishSecretRef = nil
			n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{}}}
			n.cfg.Tokens = func(context.Context, TokenRequest) (authenticationv1.TokenRequestStatus, error) {
				return authenticationv1.TokenRequestStatus{}, tc.err
			}
			n.restart()
			_, _, withToken := n.resolved(pod())
			for call, err := range map[string]error{
				"stage": n.Stage(t.Context(), s), "publish": n.Publish(t.Context(), p), "publish with a token": n.Publish(t.Context(), withToken),
			} {
				if got := storage.OutcomeOf(err); got != tc.want {
					t.Errorf("%s: %v has the outcome %d, want %d", call, err, got, tc.want)
				}
			}
			if all := n.driver.taken(); len(all) > 0 {
				t.Errorf("the driver was called: %v", all)
			}
		})
	}
}
