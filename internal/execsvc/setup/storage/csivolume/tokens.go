package csivolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// tokensKey is upstream's key of the tokens.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens" //nolint:gosec // It is the name of an attribute.

// stripped replaces a token in messages.
const stripped = "***stripped***"

// podTokens are the tokens of one call, by audience.
type podTokens map[string]authenticationv1.TokenRequestStatus

// tokens requests the tokens that the driver wants.
func (b *Backend) tokens(ctx context.Context, p *storage.Publishing, args *publishArgs) (podTokens, error) {
	if len(args.Tokens) == 0 {
		return nil, nil //nolint:nilnil // There are none.
	}
	if b.cfg.Tokens == nil {
		return nil, unrepeatable(fmt.Errorf("driver %s wants tokens of the pod's service account, and this node can't request them", p.Driver))
	}
	all := make(podTokens, len(args.Tokens))
	for _, want := range args.Tokens {
		token, err := b.cfg.Tokens(ctx, TokenRequest{
			Namespace: args.Namespace, Pod: args.Pod, UID: p.UID, ServiceAccount: args.ServiceAccount,
			Audience: want.Audience, ExpirationSeconds: want.ExpirationSeconds,
		})
		if err != nil {
			return nil, missing(fmt.Errorf(PluginName+": mounter.SetUpAt failed to get service account token attributes: %w", err))
		}
		all[want.Audience] = token
	}
	return all, nil
}

// addTo adds the tokens to a call.
func (t podTokens) addTo(call *csi.Publish, inSecrets bool) {
	if t == nil {
		return
	}
	// The tokens are plain strings and times.
	text, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	add := map[string]string{tokensKey: string(text)}
	if inSecrets {
		call.Secrets = merged(call.Secrets, add)
	} else {
		call.VolumeContext = merged(call.VolumeContext, add)
	}
}

// strip returns the error without the tokens. Package csi removes secrets only, and attributes aren't secrets to it.
func (t podTokens) strip(err error) error {
	e, ok := errors.AsType[*csi.Error](err)
	if !ok || len(t) == 0 {
		return err
	}
	clean := *e
	for _, token := range t {
		if token.Token != "" {
			clean.Message = strings.ReplaceAll(clean.Message, token.Token, stripped)
		}
	}
	return &clean
}
