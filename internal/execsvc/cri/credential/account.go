package credential

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Accounts has the service accounts of an API server.
type Accounts interface {
	// Account returns a service account.
	Account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	// Token returns a token of the account for an audience, bound to the pod.
	Token(ctx context.Context, pod *v1.Pod, account *v1.ServiceAccount, audience string) (string, error)
}

// noAccounts is for a node without an API server.
type noAccounts struct{}

var errStandalone = errors.New("a node without an API server has no service accounts")

func (noAccounts) Account(context.Context, string, string) (*v1.ServiceAccount, error) {
	return nil, errStandalone
}

func (noAccounts) Token(context.Context, *v1.Pod, *v1.ServiceAccount, string) (string, error) {
	return "", errStandalone
}

// identity is what a plugin receives of a pod's service account. The zero value is that of a pod without one, or of a
// plugin that uses none.
type identity struct {
	account     *v1.ServiceAccount
	annotations map[string]string
	token       string
	// scope is a part of the key of cached answers.
	scope string
}

// source returns the account as the origin of logins. Nil: there is none.
func (i *identity) source() *imageaccess.Account {
	if i.account == nil {
		return nil
	}
	return &imageaccess.Account{UID: string(i.account.UID), Namespace: i.account.Namespace, Name: i.account.Name}
}

// call returns the key of running calls: a call is shared by pods for which the plugin receives the same.
func (i *identity) call(repository string) string {
	return fmt.Sprintf("%q %x %s", repository, sha256.Sum256([]byte(i.token)), encode(i.annotations))
}

func (i *identity) request(repository string) pluginv1.CredentialProviderRequest {
	return pluginv1.CredentialProviderRequest{Image: repository, ServiceAccountToken: i.token, ServiceAccountAnnotations: i.annotations}
}

func encode(annotations map[string]string) string {
	text, _ := json.Marshal(annotations) //nolint:errchkjson // A map of strings can be encoded.
	return string(text)
}

// identify returns what the plugin receives of the pod's service account, without the token. run is false if the plugin
// isn't for the pod. A pod that isn't from an API server has no service account, whatever its spec has.
func (p *plugin) identify(ctx context.Context, pod *v1.Pod) (who identity, run bool, err error) {
	if p.tokens == nil {
		return identity{}, true, nil
	}
	if pod.Spec.ServiceAccountName == "" || !podmeta.FromAPI(pod) {
		return identity{}, !*p.tokens.RequireServiceAccount, nil
	}
	who.account, err = p.accounts.Account(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return identity{}, false, fmt.Errorf("failed to get service account: %w", err)
	}
	who.annotations = map[string]string{}
	for _, key := range p.tokens.RequiredServiceAccountAnnotationKeys {
		value, ok := who.account.Annotations[key]
		if !ok {
			return identity{}, false, nil
		}
		who.annotations[key] = value
	}
	for _, key := range p.tokens.OptionalServiceAccountAnnotationKeys {
		if value, ok := who.account.Annotations[key]; ok {
			who.annotations[key] = value
		}
	}
	who.scope = fmt.Sprintf("%q %q %q %s", who.account.Namespace, who.account.Name, who.account.UID, encode(who.annotations))
	return who, true, nil
}

// requestToken completes an identity. With the cache type Token, an answer is for the token only.
func (p *plugin) requestToken(ctx context.Context, pod *v1.Pod, who *identity) (err error) {
	who.token, err = p.accounts.Token(ctx, pod, who.account, p.tokens.ServiceAccountTokenAudience)
	if err != nil {
		return fmt.Errorf("failed to get service account token: %w", err)
	}
	if p.tokens.CacheType == kubeletv1.TokenServiceAccountTokenCacheType {
		who.scope += fmt.Sprintf(" %x", sha256.Sum256([]byte(who.token)))
	}
	return nil
}

// errEchoed is the error of a plugin whose answers would be cached for other pods' tokens.
var errEchoed = errors.New("it returned the service account token as the password, which is not allowed when its cacheType is not Token")

// echoes reports whether the answer has the token and would be cached for other tokens.
func (p *plugin) echoes(who identity, response *pluginv1.CredentialProviderResponse) bool {
	if who.token == "" || p.tokens.CacheType == kubeletv1.TokenServiceAccountTokenCacheType {
		return false
	}
	for _, auth := range response.Auth {
		if auth.Password == who.token {
			return true
		}
	}
	return false
}
